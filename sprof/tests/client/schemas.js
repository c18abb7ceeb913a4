// Validates outputs of sprof, a file each, against the schemas of a folder; prints `valid`, or what is wrong.
const Ajv = require("ajv/dist/2020");
const fs = require("fs");
const path = require("path");
const [folder, ...files] = process.argv.slice(2);
const read = (file) => JSON.parse(fs.readFileSync(file));
const ajv = new Ajv({ allErrors: true, allowUnionTypes: true });
for (const file of fs.readdirSync(folder).filter((name) => name.endsWith(".json"))) {
  const schema = read(path.join(folder, file));
  ajv.addSchema(schema, schema.title);
  ajv.getSchema(schema.title);
}
const wrong = files.flatMap((file) => {
  const output = read(file);
  return ajv.validate(output.schema, output) ? [] : [`${file}: ${ajv.errorsText()}`];
});
console.log(wrong.join("\n") || "valid");
