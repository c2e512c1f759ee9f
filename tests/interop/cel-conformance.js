// Turns the conformance tests of CEL, data of the package @bufbuild/cel-spec, into the lines that tests/tools/cel_conformance.c reads.
// Usage: node cel-conformance.js OUT [SUITE...]   (without suites: the core)
//
//   test basic/variables/name      a test begins; an empty line ends it
//   expr HEX                       the expression
//   container NAME                 its namespace
//   flag unchecked|extensions
//   var NAME TYPE                  a declared variable
//   bind NAME VALUE                its value
//   value VALUE | error            what evaluating it gives
//   type TYPE                      what cel-go's checker found
//   refused                        cel-go's checker refuses it
//
//   VALUE: null | bool 0 | int N | uint N | double HEX-OF-BITS | string HEX | bytes HEX | type NAME | list N VALUE... |
//          map N KEY VALUE... | timestamp SECONDS NANOS | duration SECONDS NANOS
//
// A test that needs protobuf messages is left out, by one rule: it names a message type other than Timestamp and Duration. So is one that calls
// format(), which Sherd's CEL does not have.
'use strict';
const fs = require('node:fs');
const { tests } = require('@bufbuild/cel-spec/testdata/conformance.js');

const CORE = ['basic', 'comparisons', 'conversions', 'fields', 'fp_math', 'integer_math', 'lists', 'logic', 'macros', 'namespace', 'parse',
  'plumbing', 'string', 'timestamps'];
const MESSAGES = /TestAllTypes|TestRequired|conformance\.proto|"wrapper"|"wellKnown":"ANY"|google\.protobuf\.(?!Timestamp|Duration)[A-Z]/;
const FORMAT = /\.format\(/;
const PRIMITIVES = { BOOL: 'bool', INT64: 'int', UINT64: 'uint', DOUBLE: 'double', STRING: 'string', BYTES: 'bytes' };

const hex = (text) => Buffer.from(text, 'utf8').toString('hex') || '-';

function bits(number) {
  const view = Buffer.alloc(8);
  view.writeDoubleBE(number === 'NaN' ? NaN : Number(String(number)));
  return view.toString('hex');
}

function time(object) {
  const name = object['@type'].split('.').pop();
  if (name === 'Duration') {
    const [, sign, seconds, fraction] = /^(-?)(\d+)(?:\.(\d+))?s$/.exec(object.value);
    const nanos = Number((fraction ?? '').padEnd(9, '0'));
    if (sign && nanos) return `duration ${-BigInt(seconds) - 1n} ${1000000000 - nanos}`;
    return `duration ${sign}${seconds} ${nanos}`;
  }
  const [, whole, fraction] = /^([^.Z]+)(?:\.(\d+))?Z$/.exec(object.value);
  const date = new Date(0);
  const [year, month, day, hour, minute, second] = whole.split(/[-T:]/).map(Number);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  return `timestamp ${date.getTime() / 1000} ${Number((fraction ?? '').padEnd(9, '0'))}`;
}

function value(v) {
  if ('nullValue' in v) return 'null';
  if ('boolValue' in v) return `bool ${v.boolValue ? 1 : 0}`;
  if ('int64Value' in v) return `int ${v.int64Value}`;
  if ('uint64Value' in v) return `uint ${v.uint64Value}`;
  if ('doubleValue' in v) return `double ${bits(v.doubleValue)}`;
  if ('stringValue' in v) return `string ${hex(v.stringValue)}`;
  if ('bytesValue' in v) return `bytes ${Buffer.from(v.bytesValue, 'base64').toString('hex') || '-'}`;
  if ('typeValue' in v) return `type ${v.typeValue}`;
  if ('objectValue' in v) return time(v.objectValue);
  if ('listValue' in v) return [`list ${(v.listValue.values ?? []).length}`, ...(v.listValue.values ?? []).map(value)].join(' ');
  const entries = v.mapValue.entries ?? [];
  return [`map ${entries.length}`, ...entries.flatMap((e) => [value(e.key), value(e.value)])].join(' ');
}

function type(t) {
  if (t.primitive) return PRIMITIVES[t.primitive];
  if ('null' in t) return 'null';
  if ('dyn' in t) return 'dyn';
  if (t.listType) return `list(${type(t.listType.elemType)})`;
  if (t.mapType) return `map(${type(t.mapType.keyType)}, ${type(t.mapType.valueType)})`;
  if (t.wellKnown) return t.wellKnown.toLowerCase();
  if (t.messageType) return t.messageType.split('.').pop().toLowerCase();
  throw new Error(`no such type: ${JSON.stringify(t)}`);
}

// Variables that have a value but no declaration are dyn.
function variables(o) {
  const lines = (o.typeEnv ?? []).filter((d) => d.ident).map((d) => `var ${d.name} ${type(d.ident.type)}`);
  const declared = new Set((o.typeEnv ?? []).map((d) => d.name));
  for (const [name, binding] of Object.entries(o.bindings ?? {})) {
    if (!declared.has(name)) lines.push(`var ${name} dyn`);
    lines.push(`bind ${name} ${value(binding.value)}`);
  }
  return lines;
}

function lines(path, test, core) {
  const o = test.original;
  const result = o.value ?? o.typedResult?.result;
  const out = [`test ${path}/${o.name}`, `expr ${hex(o.expr)}`, ...variables(o)];
  if (o.container) out.push(`container ${o.container}`);
  if (o.disableCheck) out.push('flag unchecked');
  if (!core) out.push('flag extensions');
  if (result) out.push(`value ${value(result)}`);
  else if (o.evalError) out.push('error');
  else if (!o.checkOnly) out.push('value bool 1');
  if (test.type) out.push(`type ${test.type}`);
  if (/found no matching overload|undeclared reference|expected type|does not support/.test(test.error ?? '') && o.disableCheck && !o.bindings) out.push('refused');
  return out.join('\n') + '\n\n';
}

function* walk(suite, path) {
  for (const test of suite.tests ?? []) yield [path, test];
  for (const inner of suite.suites ?? []) yield* walk(inner, `${path}/${inner.name}`);
}

const [out, ...named] = process.argv.slice(2);
const wanted = named.length ? named : CORE;
let text = '';
const messages = {};
let formats = 0;
for (const suite of tests.suites.filter((s) => wanted.includes(s.name))) {
  for (const [path, test] of walk(suite, suite.name)) {
    if (MESSAGES.test(JSON.stringify(test.original))) messages[suite.name] = (messages[suite.name] ?? 0) + 1;
    else if (FORMAT.test(test.original.expr)) formats++;
    else text += lines(path, test, CORE.includes(suite.name));
  }
}
fs.writeFileSync(out, text);
const total = Object.values(messages).reduce((a, b) => a + b, 0);
console.log(`${total} tests need protobuf messages: ${Object.entries(messages).map(([name, n]) => `${name} ${n}`).join(', ') || 'none'}`
  + (formats ? `; ${formats} call format()` : ''));
