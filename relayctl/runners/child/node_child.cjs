// The program inside a node child: takes invocations from its channel, calls handlers, answers.
//
// Only what node brings along; 18 or later. It decides nothing about timeouts, retries or records.
// Arguments: the channel's descriptor, the app's directory, handlers to load beforehand.

'use strict';

const LOWEST = 18;
if (Number(process.versions.node.split('.')[0]) < LOWEST) {
  process.stderr.write(`node ${process.version} is too old: ${LOWEST} or later is needed\n`);
  process.exit(1);
}

const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const url = require('node:url');
const util = require('node:util');
const packages = require('./node_packages.cjs');

const MAX_REASON = 500;
const MAX_STACK = 16 * 1024;
const DESCRIPTOR_CHECK_EVERY = 64;
const MAX_EXTRA_DESCRIPTORS = 256;
const SUFFIXES = ['.js', '.mjs', '.cjs', '/index.js', '/index.mjs', '/index.cjs'];
// What goes on in a child that has answered, and would go on in the next run. Connections may rest.
const RESTLESS = new Set(['Timeout', 'Immediate', 'ProcessWrap', 'TCPServerWrap', 'FSEventWrap', 'StatWatcher', 'MessagePort']);

const SCRATCH = scratch();

class Failure extends Error {}

// Memory where the system has it.
function scratch() {
  try {
    fs.accessSync('/dev/shm', fs.constants.W_OK);
    return '/dev/shm';
  } catch {
    return os.tmpdir();
  }
}

// The channel

class Channel {
  constructor(fd) {
    this.fd = fd;
    this.socket = new net.Socket({ fd, readable: true, writable: true });
    this.buffer = Buffer.alloc(0);
    this.chunks = [];
    this.size = 0;
  }

  listen(onRun, onEnd) {
    this.socket.on('data', (chunk) => {
      this.chunks.push(chunk);
      this.size += chunk.length;
      this.take(onRun);
    });
    this.socket.on('end', onEnd);
    this.socket.on('error', onEnd);
  }

  take(onRun) {
    while (this.size >= 8) {
      if (this.chunks[0].length < 8) this.join();
      const head = this.chunks[0].readUInt32BE(0);
      const end = 8 + head + this.chunks[0].readUInt32BE(4);
      if (this.size < end) return;
      this.join();
      const whole = this.chunks[0];
      this.chunks = whole.length > end ? [whole.subarray(end)] : [];
      this.size -= end;
      onRun(JSON.parse(whole.toString('utf8', 8, 8 + head)), whole.subarray(8 + head, end));
    }
  }

  join() {
    if (this.chunks.length > 1) this.chunks = [Buffer.concat(this.chunks)];
  }

  // At once and not in some later turn of the loop: the process may be about to end.
  send(frame) {
    const body = Buffer.from(JSON.stringify(frame));
    const data = Buffer.alloc(4 + body.length);
    data.writeUInt32BE(body.length);
    body.copy(data, 4);
    for (let sent = 0; sent < data.length; ) {
      try {
        sent += fs.writeSync(this.fd, data, sent);
      } catch (error) {
        if (error.code !== 'EAGAIN') return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
      }
    }
  }
}

// Handlers

const loaded = new Map();

async function load(name) {
  const known = loaded.get(name);
  if (known !== undefined) return known;
  const dot = name.lastIndexOf('.');
  if (dot <= 0 || dot === name.length - 1) throw new Failure(`handler '${name}' is not of the form module.function`);
  const [module, attribute] = [name.slice(0, dot), name.slice(dot + 1)];
  const exported = await import(url.pathToFileURL(fileOf(module)).href);
  const owner = [exported, exported.default, exported.default?.default].find((each) => each?.[attribute] !== undefined);
  if (owner === undefined) throw new Failure(`module ${module} exports no ${attribute}`);
  const handler = owner[attribute];
  if (typeof handler !== 'function') throw new Failure(`${name} is of type ${typeof handler}, not a function`);
  if (/Generator/.test(handler.constructor?.name)) {
    throw new Failure(`${name} is a generator function, so calling it would run nothing`);
  }
  const found = (event) => owner[attribute](event);
  loaded.set(name, found);
  return found;
}

function fileOf(module) {
  const relative = module.replaceAll('.', '/');
  const root = fs.realpathSync(directory);
  for (const suffix of SUFFIXES) {
    const file = path.join(root, relative + suffix);
    if (!fs.statSync(file, { throwIfNoEntry: false })?.isFile()) continue;
    if (fs.realpathSync(file).startsWith(root + path.sep)) return file;
    throw new Failure(`module ${module} lies outside its app`);
  }
  throw new Failure(`the app has no module ${module}`);
}

// Words

function firstLine(text) {
  return text.trim().split('\n', 1)[0];
}

function oneLine(error) {
  if (error instanceof Failure) return error.message.slice(0, MAX_REASON);
  try {
    if (!util.types.isNativeError(error)) return `thrown: ${firstLine(String(error))}`.slice(0, MAX_REASON);
    const place = error instanceof SyntaxError ? /^(.*):(\d+)$/m.exec(firstLine(error.stack)) : null;
    const where = place ? ` (${path.basename(place[1])}, line ${place[2]})` : '';
    return `${error.name}: ${firstLine(error.message)}${where}`.slice(0, MAX_REASON);
  } catch {
    return 'an error whose text could not be made';
  }
}

// On standard error, from the handler's own frames on, bounded.
function show(error) {
  if (error instanceof Failure) return;
  try {
    const lines = util.inspect(error).split('\n');
    let text = lines.filter((line) => !line.includes(__filename)).join('\n');
    if (text.length > MAX_STACK) text = `${text.slice(0, MAX_STACK / 2)}\n  [cut]\n${text.slice(-MAX_STACK / 2)}`;
    process.stderr.write(`${text}\n`);
  } catch {
    // The one-line reason says it too.
  }
}

// What a handler may change of its process and the next one must not see

const surroundings = {
  directory: '',
  umask: process.umask(),
  base: {},
  listeners: new Map(),
  resources: new Map(),
  identities: '',
  standing: '',
  descriptors: 0,
  stdin: null,
  runs: 0,

  // Taken after the app's modules were loaded: what they set up for good is theirs to keep.
  remember() {
    this.listeners = new Map(process.eventNames().map((event) => [event, process.rawListeners(event)]));
    this.resources = counted(process.getActiveResourcesInfo());
    this.standing = standing();
  },

  enter(variables, event) {
    setEnvironment({ ...this.base, ...variables });
    this.present(event);
  },

  // A nameless file with the event as descriptor 0. The lowest free number is what open gives, hence the close before.
  present(event) {
    const file = path.join(SCRATCH, `relay-event-${process.pid}-${process.hrtime.bigint()}`);
    closeQuietly(0);
    const { O_RDONLY, O_CREAT, O_EXCL } = fs.constants;
    const reader = fs.openSync(file, O_RDONLY | O_CREAT | O_EXCL, 0o600);
    const writer = fs.openSync(file, 'r+');
    fs.unlinkSync(file);
    if (reader !== 0) throw new Failure('standard input could not be given the event');
    fs.writeFileSync(writer, event);
    fs.closeSync(writer);
    let stream = null;
    const get = () => (stream ??= new fs.ReadStream(null, { fd: 0, autoClose: false }));
    Object.defineProperty(process, 'stdin', { configurable: true, enumerable: true, get });
  },

  // Whether this process may serve another run.
  restore() {
    try {
      this.putBack();
      return this.isClean();
    } catch {
      return false;
    }
  },

  putBack() {
    setEnvironment(this.base);
    process.umask(this.umask);
    process.chdir(this.directory);
    process.exitCode = undefined;
    for (const stream of [process.stdout, process.stderr]) delete stream.write;
    for (const event of process.eventNames()) {
      const kept = this.listeners.get(event) ?? [];
      for (const listener of process.rawListeners(event)) {
        if (!kept.includes(listener)) process.removeListener(event, listener);
      }
    }
  },

  isClean() {
    this.runs += 1;
    if (identities() !== this.identities || standing() !== this.standing) return false;
    const now = counted(process.getActiveResourcesInfo());
    for (const [kind, count] of now) {
      if (RESTLESS.has(kind) && count > (this.resources.get(kind) ?? 0)) return false;
    }
    for (const [event, kept] of this.listeners) {
      if (process.listenerCount(event) < kept.length) return false;
    }
    return this.runs % DESCRIPTOR_CHECK_EVERY !== 0 || openDescriptors() <= this.descriptors + MAX_EXTRA_DESCRIPTORS;
  },
};

function setEnvironment(wanted) {
  for (const name of Object.keys(process.env)) if (!Object.hasOwn(wanted, name)) delete process.env[name];
  for (const [name, value] of Object.entries(wanted)) if (process.env[name] !== value) process.env[name] = value;
}

function counted(kinds) {
  const counts = new Map();
  for (const kind of kinds) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

function identities() {
  return [1, 2].map((fd) => fs.fstatSync(fd, { bigint: true })).map((seen) => `${seen.dev}:${seen.ino}`).join(' ');
}

// What often there is no way back from: priority and owner.
function standing() {
  return [os.getPriority(), process.geteuid(), process.getegid()].join(' ');
}

function openDescriptors() {
  try {
    return fs.readdirSync('/dev/fd').length;
  } catch {
    return 0;
  }
}

function closeQuietly(fd) {
  try {
    fs.closeSync(fd);
  } catch {
    // The handler has closed it already.
  }
}

// Runs

let current = null;
let interrupt = null;

// What `work` comes to, or what happens meanwhile that it cannot know: an error nobody caught, nothing left to wait for.
async function settled(work) {
  const elsewhere = new Promise((_, reject) => {
    interrupt = reject;
  });
  elsewhere.catch(() => {});
  try {
    const result = await Promise.race([work(), elsewhere]);
    // Errors of writing, and rejections that nobody handles, show in the next turn.
    await Promise.race([new Promise((resolve) => setImmediate(resolve)), elsewhere]);
    return result;
  } finally {
    interrupt = null;
  }
}

function answer(succeeded, code, reason, isReusable) {
  const run = current;
  current = null;
  if (run !== null) channel.send(['end', run.sequence, succeeded, code, reason, isReusable]);
}

async function run([sequence, name, variables], event) {
  current = { sequence, isSound: false, lost: null };
  // With the channel out of the account, the loop is empty once the handler can never go on.
  channel.socket.unref();
  try {
    surroundings.enter(variables, event);
    current.isSound = true;
    const isNew = !loaded.has(name);
    const handler = await settled(() => load(name));
    if (isNew) surroundings.remember();
    await settled(async () => handler(JSON.parse(event.toString('utf8'))));
    conclude(true, '');
  } catch (error) {
    show(error);
    conclude(false, oneLine(error));
  } finally {
    channel.socket.ref();
  }
}

function conclude(succeeded, reason) {
  if (current === null) return;
  if (succeeded && current.lost) [succeeded, reason] = [false, `output was lost: ${oneLine(current.lost)}`];
  const code = Number(process.exitCode ?? 0);
  const isReusable = current.isSound && surroundings.restore();
  if (succeeded && code !== 0) answer(false, code, `exit code ${code}`, isReusable);
  else answer(succeeded, null, reason, isReusable);
}

process.on('exit', (code) => answer(code === 0, code, code === 0 ? '' : `exit code ${code}`, false));

process.on('uncaughtException', (error) => {
  if (process.listenerCount('uncaughtException') > 1) return; // the app sees to it
  if (interrupt === null) {
    show(error);
    process.exit(1);
  }
  if (current !== null) current.isSound = false;
  interrupt(error);
});

process.on('beforeExit', () => {
  if (current !== null) current.isSound = false;
  if (interrupt !== null) interrupt(new Failure('the handler waits for something that can never come'));
});

async function loadAll(names) {
  const failed = [];
  for (const name of names) {
    try {
      await settled(() => load(name));
    } catch (error) {
      failed.push([name, oneLine(error)]);
    }
  }
  return failed;
}

const directory = process.argv[3];
const names = process.argv.slice(4);
const channel = new Channel(Number(process.argv[2]));
process.argv.splice(1, process.argv.length, directory);

(async () => {
  channel.socket.unref();
  packages.extend(process.env.NODE_PATH);
  surroundings.directory = process.cwd();
  surroundings.base = { ...process.env };
  surroundings.identities = identities();
  for (const stream of [process.stdout, process.stderr]) {
    // What was written is out, whatever ends the process, and none of it is kept in memory.
    stream._handle?.setBlocking?.(true);
    // The console would keep it to itself.
    stream.on('error', (error) => {
      if (current !== null) current.lost = error;
    });
  }
  const failed = await loadAll(names);
  surroundings.remember();
  surroundings.descriptors = openDescriptors();
  channel.listen(run, () => process.exit());
  channel.socket.ref();
  channel.send(['ready', failed]);
})();
