// Loaded before a Node server that offers no choice of address: it then listens on the loopback interface only.
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const isBare = /^\d+$/.test(String(port)) && typeof rest[0] !== "string";
  return isBare ? listen.call(this, Number(port), "127.0.0.1", ...rest) : listen.call(this, port, ...rest);
};
