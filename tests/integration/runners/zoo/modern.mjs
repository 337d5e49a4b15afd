import { basename } from 'node:path';

export async function handler(event) {
  console.log('modern', event.n, basename(import.meta.url));
}

export default function (event) {
  console.log('default', event.n);
}
