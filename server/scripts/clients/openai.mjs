// OpenAI's client for Node: see clients.sh.
import fs from "node:fs";
import OpenAI from "openai";

const lines = fs.readFileSync(process.argv[2], "utf8").trim().split("\n").map((l) => JSON.parse(l));
const client = new OpenAI({ baseURL: process.env.SERVED_URL + "/v1", apiKey: "secret" });
const answer = await client.embeddings.create({ model: "minilm", input: lines.map((l) => l.text) });
lines.forEach((l, i) => {
  l.embedding.forEach((x, k) => {
    if (!(Math.abs(x - answer.data[i].embedding[k]) < 1e-5)) throw new Error(`vector ${i} differs`);
  });
});
try {
  await client.embeddings.create({ model: "none", input: "a" });
  throw new Error("a model that is not there is taken");
} catch (e) {
  if (!(e instanceof OpenAI.NotFoundError)) throw e;
}
console.log("ok openai for Node");
