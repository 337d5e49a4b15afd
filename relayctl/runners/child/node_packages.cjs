// Lets ES modules find packages where NODE_PATH says, as CommonJS modules do: in an app's environment, for one.
//
// Only what node brings along. What lies beside the app is found first. It is a module of the child, and, in versions
// of node whose hooks run in a thread of their own, of that thread too.

'use strict';

const module_ = require('node:module');
const path = require('node:path');
const url = require('node:url');

let places = [];

function isMissing(specifier, error) {
  return error?.code === 'ERR_MODULE_NOT_FOUND' && !/^(?:[./]|[a-z][a-z0-9+.-]*:)/i.test(specifier);
}

function resolve(specifier, context, next) {
  const elsewhere = (error, left) => {
    if (!isMissing(specifier, error) || left.length === 0) throw error;
    const [parentURL, ...others] = left;
    return attempt({ ...context, parentURL }, others, error);
  };
  // `next` answers at once or later, as the hooks of this version of node do.
  const attempt = (where, left, first) => {
    const failed = (error) => elsewhere(isMissing(specifier, error) ? (first ?? error) : error, left);
    try {
      const found = next(specifier, where);
      return typeof found?.then === 'function' ? found.catch(failed) : found;
    } catch (error) {
      return failed(error);
    }
  };
  return attempt(context, places, null);
}

function initialize(found) {
  places = found;
}

// Make it so in this process, where there is anything to find.
function extend(nodePath) {
  const roots = (nodePath ?? '').split(path.delimiter).filter((each) => path.basename(each) === 'node_modules');
  if (roots.length === 0) return;
  initialize(roots.map((each) => url.pathToFileURL(path.join(path.dirname(each), 'importer.js')).href));
  if (typeof module_.registerHooks === 'function') module_.registerHooks({ resolve });
  else module_.register?.(url.pathToFileURL(__filename).href, { data: places });
}

module.exports = { extend, initialize, resolve };
