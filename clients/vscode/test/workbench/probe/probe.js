// Runs function bodies of the workbench test in the extension host, over the socket in HAFT_PROBE.
const vscode = require("vscode");
const net = require("node:net");
const fs = require("node:fs");

const AsyncFunction = Object.getPrototypeOf(async function () {}).constructor;

exports.activate = () => {
  fs.rmSync(process.env.HAFT_PROBE, { force: true });
  net
    .createServer({ allowHalfOpen: true }, (socket) => {
      let body = "";
      socket.on("error", () => {});
      socket.on("data", (text) => (body += text));
      socket.on("end", async () => {
        try {
          const result = await new AsyncFunction("vscode", body)(vscode);
          socket.end(JSON.stringify({ result: result ?? null }));
        } catch (error) {
          socket.end(JSON.stringify({ error: String((error && error.stack) || error) }));
        }
      });
    })
    .listen(process.env.HAFT_PROBE);
};
