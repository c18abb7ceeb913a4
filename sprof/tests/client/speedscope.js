// Validates a file against speedscope's own schema; prints `valid`, or what is wrong.
const Ajv = require("ajv");
const fs = require("fs");
const path = require("path");
const root = path.dirname(require.resolve("speedscope/package.json"));
const schema = JSON.parse(fs.readFileSync(path.join(root, "dist/release/file-format-schema.json")));
const validate = new Ajv({ strict: false }).compile(schema);
console.log(validate(JSON.parse(fs.readFileSync(process.argv[2]))) ? "valid" : JSON.stringify(validate.errors));
