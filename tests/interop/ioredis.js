// ioredis does what applications do with it. Usage: node ioredis.js PORT RESP
'use strict';
const assert = require('node:assert');
const Redis = require('ioredis');

const [port, protocol] = process.argv.slice(2).map(Number);
const options = { port, host: '127.0.0.1', protocol, maxRetriesPerRequest: 0 };

async function main() {
  const redis = new Redis(options);
  const other = new Redis(options);
  const bytes = Buffer.from([0, 13, 10, 255]);

  assert.equal(await redis.set('text', 'hello', 'EX', 100), 'OK');
  assert.equal(await redis.get('text'), 'hello');
  assert.equal(await redis.get('missing'), null);
  await redis.set('bytes', bytes);
  assert.deepEqual(await redis.getBuffer('bytes'), bytes);
  assert.equal(await redis.hset('hash', { a: 1, b: 2 }), 2);
  assert.deepEqual({ ...(await redis.hgetall('hash')) }, { a: '1', b: '2' });
  await redis.zadd('zset', 1, 'one', 2.5, 'two');
  assert.deepEqual((await redis.zrange('zset', 0, -1, 'WITHSCORES')).flat().map(String), ['one', '1', 'two', '2.5']);
  await redis.sadd('set', 'x', 'y');
  assert.deepEqual([...(await redis.smembers('set'))].sort(), ['x', 'y']);

  const piped = await redis.pipeline().set('p', 1).incr('p').lpush('text', 'x').get('p').exec();
  assert.deepEqual(piped.map(([, v]) => v), ['OK', 2, undefined, '2']);
  assert.match(piped[2][0].message, /^WRONGTYPE/);
  assert.deepEqual(await redis.multi().set('m1', 1).set('m2', 2).mget('m1', 'm2').exec(), [[null, 'OK'], [null, 'OK'], [null, ['1', '2']]]);

  await redis.watch('text');
  await other.set('text', 'changed');
  assert.equal(await redis.multi().set('text', 'mine').exec(), null);

  const popped = redis.blpop('queue', 10);
  await other.rpush('queue', 'job');
  assert.deepEqual(await popped, ['queue', 'job']);

  const listener = new Redis(options);
  await listener.subscribe('news');
  const message = new Promise((resolve) => listener.on('message', (channel, text) => resolve([channel, text])));
  assert.equal(await other.publish('news', 'hello'), 1);
  assert.deepEqual(await message, ['news', 'hello']);

  const keys = Array.from({ length: 200 }, (_, i) => `scan:${i}`);
  await redis.mset(...keys.flatMap((k) => [k, 'x']));
  const seen = new Set();
  for await (const page of redis.scanStream({ match: 'scan:*', count: 20 })) page.forEach((k) => seen.add(k));
  assert.equal(seen.size, 200);

  for (const c of [redis, other, listener]) await c.quit();
  console.log('ok');
}

main().catch((e) => { console.error(e); process.exit(1); });
