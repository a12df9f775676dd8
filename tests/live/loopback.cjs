// Loaded before a server: lets it listen on the loopback interface alone, on any free port, and say where.
const { Server } = require("node:net");

const { listen } = Server.prototype;

Server.prototype.listen = function (...given) {
  this.once("listening", () => console.log(`serves http://127.0.0.1:${this.address().port}`));
  const callbacks = given.filter((one) => typeof one === "function");
  return listen.call(this, { host: "127.0.0.1", port: 0 }, ...callbacks);
};
