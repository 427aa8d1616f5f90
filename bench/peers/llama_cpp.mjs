// Runs a GGUF model by llama.cpp, by token numbers: generate.py starts it.
//
//   node llama_cpp.mjs MODEL.gguf '{"tokens": [1, 2, 3], "new": 16, "threads": 2, "batches": [1, 4], "flash": false}'
//
// Prints {greedy, prefill_tps, decode_tps, build}, decode_tps by batch. The prompt's time is without probabilities, the median of `rounds`. With
// "text": [1, 2, 3] it prints {perplexity} of that alone: of its tokens behind the first. It
// needs the npm package node-llama-cpp (3.21.1 was used) in a folder of one's own, from where it is started:
//   npm i -E node-llama-cpp@3.21.1 --ignore-scripts
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const require = createRequire(process.cwd() + '/');
const {getLlama} = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const [file, text] = process.argv.slice(2);
const o = JSON.parse(text);
const batches = o.batches ?? [1];
const largest = Math.max(...batches);
const rounds = o.rounds ?? 3;
const llama = await getLlama({gpu: false, build: 'never', maxThreads: o.threads, logLevel: 'error'});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const contextSize = o.text ? o.text.length + 8 : o.tokens.length + o.new + 8;
const context = await model.createContext({contextSize, batchSize: Math.max(512, contextSize), threads: o.threads,
  sequences: largest, flashAttention: o.flash ?? false});
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
const seconds = async (work) => {
  const begin = performance.now();
  await work();
  return (performance.now() - begin) / 1000;
};

if (o.text) {
  const said = await context.getSequence().controlledEvaluate(o.text.map((token) => [token, {generateNext: {probabilities: true}}]));
  const losses = o.text.slice(1).map((token, i) => -Math.log(said[i].next.probabilities.get(token)));
  console.log(JSON.stringify({perplexity: Math.exp(losses.reduce((sum, loss) => sum + loss, 0) / losses.length)}));
  process.exit(0);
}
const sequences = Array.from({length: largest}, () => context.getSequence());
const prompt = o.tokens.slice(0, -1);
const last = o.tokens[o.tokens.length - 1];
const prefills = [];
for (let round = 0; round < rounds; ++round) {
  await sequences[0].clearHistory();
  prefills.push(await seconds(() => sequences[0].evaluateWithoutGeneratingNewTokens(prompt)));
}
for (const sequence of sequences.slice(1)) await sequence.evaluateWithoutGeneratingNewTokens(prompt);

const next = async (sequence, token) => {
  const result = await sequence.controlledEvaluate([[token, {generateNext: {token: true, options: {temperature: 0}}}]]);
  return result[0].next.token;
};
let greedy = [];
const decode = {};
for (const batch of batches) {
  const some = sequences.slice(0, batch);
  let tokens = await Promise.all(some.map((sequence) => next(sequence, last)));
  greedy = [tokens[0]];
  const steps = [];
  for (let step = 1; step < o.new; ++step) {
    steps.push(await seconds(async () => {
      tokens = await Promise.all(some.map((sequence, i) => next(sequence, tokens[i])));
    }));
    greedy.push(tokens[0]);
  }
  decode[batch] = batch / median(steps);
  for (const sequence of some) await sequence.eraseContextTokenRanges([{start: prompt.length, end: sequence.nextTokenIndex}]);
}
console.log(JSON.stringify({greedy, prefill_tps: prompt.length / median(prefills), decode_tps: decode, build: llama.systemInfo}));
await context.dispose();
await model.dispose();
