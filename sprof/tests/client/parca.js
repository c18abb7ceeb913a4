// Parca's messages as its own client publishes them, generated from its protos: reads JSON strictly, and prints it as they write it.
// node parca.js MESSAGE FILE
const Module = require("module");
const fs = require("fs");
const ts = require("typescript");
// The package is for bundlers: its files are modules without the ending that Node wants.
const plain = Module._extensions[".js"];
Module._extensions[".js"] = (module, file) => {
  if (!file.includes("@parca")) return plain(module, file);
  const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 };
  module._compile(ts.transpileModule(fs.readFileSync(file, "utf8"), { compilerOptions }).outputText, file);
};
const messages = {
  ...require("@parca/client/dist/parca/profilestore/v1alpha1/profilestore.js"),
  ...require("@parca/client/dist/parca/query/v1alpha1/query.js"),
};
const message = messages[process.argv[2]];
const read = message.fromJson(JSON.parse(fs.readFileSync(process.argv[3], "utf8")));
console.log(JSON.stringify(message.toJson(read)));
