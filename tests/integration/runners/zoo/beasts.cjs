'use strict';

const fs = require('node:fs');
const { spawn, spawnSync } = require('node:child_process');

let calls = 0;

exports.noop = () => {};
exports.count = () => console.log(++calls);
exports.echo = (event) => console.log(JSON.stringify(event));
exports.echo_stdin = () => console.log(fs.readFileSync(0, 'utf8'));
exports.echo_stream = async () => {
  let text = '';
  for await (const chunk of process.stdin.setEncoding('utf8')) text += chunk;
  console.log(text);
};
exports.echo_by_child = () => spawnSync('cat', { stdio: 'inherit' });
exports.awaits = async (event) => {
  await new Promise((resolve) => setTimeout(resolve, 5));
  console.log('awaited', event.n);
};
exports.look = () => console.log(JSON.stringify({
  cwd: process.cwd(), env: process.env, umask: process.umask(), pid: process.pid, argv: process.argv,
  listeners: process.listenerCount('SIGTERM'), exitCode: process.exitCode ?? null,
}));
exports.mess_up = () => {
  process.chdir('/');
  process.umask(0o077);
  process.env.LEFT = 'behind';
  delete process.env.LANG;
  process.on('SIGTERM', () => {});
  process.stdout.write = () => true;
  console.log('lost');
};
exports.be_nice = () => require('node:os').setPriority(3);
exports.priority = () => console.log(require('node:os').getPriority());
exports.close_stdin = () => fs.closeSync(0);
exports.close_stdout = () => fs.closeSync(1);
exports.print_after_close = () => { fs.closeSync(1); console.log('lost'); };
exports.huge_value = () => 'x'.repeat(50_000_000);
exports.raises = () => { throw new TypeError('no such customer\nsecond line'); };
exports.rejects = async () => { throw new RangeError('too far'); };
exports.throws_text = () => { throw 'just words'; };
exports.throws_later = () => new Promise(() => setTimeout(() => { throw new Error('later'); }, 5));
exports.rejects_unseen = () => { Promise.reject(new Error('unseen')); };
exports.waits_for_nothing = () => new Promise(() => {});
exports.recursion = function recursion(event) { return recursion(event) + 1; };
exports.generator = function* () {};
exports.number = 5;
exports.leave = (event) => process.exit(event.code);
exports.leave_later = (event) => { process.exitCode = event.code; };
exports.abort = () => process.abort();
exports.kill_itself = () => process.kill(process.pid, 'SIGKILL');
exports.sleep = (event) => new Promise((resolve) => setTimeout(resolve, (event.s ?? 100) * 1000));
exports.spin = () => { for (;;); };
exports.stubborn = () => {
  process.on('SIGTERM', () => {});
  console.log('here');
  return new Promise((resolve) => setTimeout(resolve, 100_000));
};
exports.polite = () => {
  process.on('SIGTERM', () => { console.log('cleaned up'); process.exit(0); });
  console.log('here');
  return new Promise((resolve) => setTimeout(resolve, 100_000));
};
exports.leave_timer = () => { setInterval(() => {}, 1000); };
exports.detach = () => {
  const child = spawn('sleep', ['300'], { detached: true, stdio: 'inherit' });
  console.log(child.pid);
};
exports.binary = () => { fs.writeSync(1, Buffer.from([0xff, 0xfe, 0, 0x20, 0x0a])); };
exports.flood = (event) => {
  const block = 'y'.repeat(999_999) + '\n';
  for (let n = 0; n < (event.mb ?? 20); n++) process.stdout.write(block);
  console.log('the end');
};
exports.allocate = (event) => {
  const kept = [];
  while (kept.length * 8e6 < event.bytes) kept.push(new Array(1e6).fill(kept.length));
};
exports.garbage = () => {
  for (const name of fs.readdirSync('/proc/self/fd')) {
    try {
      if (fs.readlinkSync(`/proc/self/fd/${name}`).startsWith('socket:')) fs.writeSync(Number(name), '\0\0\0\x05hello');
    } catch {}
  }
  return new Promise((resolve) => setTimeout(resolve, 100_000));
};
exports.pid = () => console.log(process.pid);
