// node-redis does what applications do with it. Usage: node node-redis.js PORT RESP
'use strict';
const assert = require('node:assert');
const { createClient, WatchError } = require('redis');

const [port, RESP] = process.argv.slice(2).map(Number);

async function connect() {
  const client = createClient({ RESP, socket: { host: '127.0.0.1', port, reconnectStrategy: false } });
  client.on('error', (e) => { console.error(e); process.exit(1); });
  return client.connect();
}

async function main() {
  const client = await connect();
  const other = await connect();

  assert.equal(await client.set('text', 'hello', { EX: 100 }), 'OK');
  assert.equal(await client.get('text'), 'hello');
  assert.equal(await client.get('missing'), null);
  assert.equal(await client.hSet('hash', { a: '1', b: '2' }), 2);
  assert.deepEqual({ ...(await client.hGetAll('hash')) }, { a: '1', b: '2' });
  await client.zAdd('zset', [{ score: 1, value: 'one' }, { score: 2.5, value: 'two' }]);
  assert.deepEqual((await client.zRangeWithScores('zset', 0, -1)).map((m) => ({ ...m })), [{ value: 'one', score: 1 }, { value: 'two', score: 2.5 }]);
  assert.equal(await client.zScore('zset', 'two'), 2.5);
  await client.sAdd('set', ['x', 'y']);
  assert.deepEqual([...(await client.sMembers('set'))].sort(), ['x', 'y']);
  await assert.rejects(client.lPush('text', 'x'), /WRONGTYPE/);

  const many = await Promise.all(Array.from({ length: 500 }, (_, i) => client.set(`k${i}`, `${i}`).then(() => client.get(`k${i}`))));
  assert.deepEqual(many, Array.from({ length: 500 }, (_, i) => `${i}`));
  assert.deepEqual(await client.multi().set('m', '1').incr('m').get('m').exec(), ['OK', 2, '2']);

  await client.watch('text');
  await other.set('text', 'changed');
  await assert.rejects(client.multi().set('text', 'mine').exec(), WatchError);

  const popped = client.blPop('queue', 10);
  await other.rPush('queue', 'job');
  assert.deepEqual({ ...(await popped) }, { key: 'queue', element: 'job' });

  const listener = await connect();
  const message = new Promise((resolve) => listener.subscribe('news', (text, channel) => resolve([channel, text])).then(() => other.publish('news', 'hello')));
  assert.deepEqual(await message, ['news', 'hello']);

  const seen = new Set();
  for await (const page of client.scanIterator({ MATCH: 'k*', COUNT: 20 })) for (const k of [page].flat()) seen.add(k);
  assert.equal(seen.size, 500);

  for (const c of [client, other, listener]) await c.close();
  console.log('ok');
}

main().catch((e) => { console.error(e); process.exit(1); });
