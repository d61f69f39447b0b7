"""Python's clients: see clients.sh."""
import importlib.metadata
import json
import os
import sys

import numpy as np
from same import read, same

work = sys.argv[1]
url, grpc_address = os.environ["SERVED_URL"], os.environ["SERVED_GRPC"]
want = read(f"{work}/vectors.jsonl")
texts = [json.loads(line)["text"] for line in open(f"{work}/vectors.jsonl")]
ranks = json.load(open(f"{work}/ranks.json"))
key = {"Authorization": "Bearer secret"}


def version(name):
    return f"{name} {importlib.metadata.version(name)}"


def openai():
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="secret")
    answer = client.embeddings.create(model="minilm", input=texts)
    same(want, [d.embedding for d in answer.data], version("openai"))
    assert answer.usage.prompt_tokens > len(texts)
    answer = client.embeddings.create(model="minilm", input=texts, encoding_format="float")
    same(want, [d.embedding for d in answer.data], "openai, floats")
    assert [m.id for m in client.models.list()][0] == "minilm"
    for wrong, error in [(dict(model="none", input="a"), openai.NotFoundError), (dict(model="minilm", input=[]), openai.BadRequestError)]:
        try:
            client.embeddings.create(**wrong)
            raise AssertionError(f"{wrong} is taken")
        except error as e:
            assert e.body["message"], e
    try:
        openai.OpenAI(base_url=f"{url}/v1", api_key="other").models.list()
        raise AssertionError("a wrong key is taken")
    except openai.AuthenticationError:
        print("ok openai, errors")


def huggingface():
    from huggingface_hub import InferenceClient

    client = InferenceClient(model=f"{url}/models/minilm", token="secret")
    for i, text in enumerate(texts):
        got = np.asarray(client.feature_extraction(text))
        same([want[i]], [got.reshape(-1).tolist()], version("huggingface_hub"))
    scores = InferenceClient(model=f"{url}/models/minilm/similarity", token="secret").sentence_similarity(texts[0], texts[1:])
    for s, v in zip(scores, want[1:]):
        assert abs(s - np.dot(want[0], v)) < 1e-4, scores
    labels = InferenceClient(model=f"{url}/models/classify", token="secret").text_classification(texts[0])
    assert labels[0].score >= labels[-1].score and labels[0].label, labels
    print("ok huggingface_hub, similarity and classification")


def ranked(results, what):
    assert [r.index for r in results] == [r["index"] for r in ranks], what
    for r, w in zip(results, ranks):
        assert abs(r.relevance_score - w["score"]) < 1e-5, what
    print("ok", what)


def cohere():
    import cohere

    client = cohere.ClientV2(api_key="secret", base_url=url)
    ranked(client.rerank(model="rerank", query=texts[0], documents=texts[1:]).results, version("cohere"))
    first = cohere.Client(api_key="secret", base_url=url).rerank(model="rerank", query=texts[0], documents=texts[1:], return_documents=True)
    ranked(first.results, "cohere, version 1")
    assert first.results[0].document.text == texts[1 + first.results[0].index]


def langchain():
    from huggingface_hub import InferenceClient
    from langchain_huggingface import HuggingFaceEndpointEmbeddings
    from langchain_openai import OpenAIEmbeddings

    e = OpenAIEmbeddings(model="minilm", base_url=f"{url}/v1", api_key="secret", check_embedding_ctx_length=False)
    same(want, e.embed_documents(texts), version("langchain-openai"))
    same(want[:1], [e.embed_query(texts[0])], "langchain-openai, query")
    e = HuggingFaceEndpointEmbeddings(model="org/minilm", huggingfacehub_api_token="secret")
    e.client = InferenceClient(model=f"{url}/models/minilm", token="secret")  # this release takes no URL as its model
    same(want, e.embed_documents(texts), version("langchain-huggingface"))


def llamaindex():
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

    e = OpenAILikeEmbedding(model_name="minilm", api_base=f"{url}/v1", api_key="secret")
    same(want, e.get_text_embedding_batch(texts), version("llama-index-embeddings-openai-like"))
    e = TextEmbeddingsInference(model_name="minilm", base_url=url, auth_token="secret", text_instruction=" ", query_instruction=" ")
    same(want, e.get_text_embedding_batch(texts), version("llama-index-embeddings-text-embeddings-inference"))


def ollama():
    import ollama

    answer = ollama.Client(host=url, headers=key).embed(model="minilm", input=texts)
    same(want, answer.embeddings, version("ollama"))


def tokens():
    """The inputs of a model that takes tensors, and its hidden state pooled as the model's files say."""
    import requests

    rows = requests.post(f"{url}/tokenize", json={"inputs": texts}, headers=key).json()
    ids = np.zeros((len(rows), max(len(r) for r in rows)), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = [t["id"] for t in row]
        mask[i, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def pooled(hidden, mask):
    v = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return (v / np.linalg.norm(v, axis=1, keepdims=True)).tolist()


def triton():
    import tritonclient.grpc
    import tritonclient.http

    inputs = tokens()

    def run(module, client, what, **more):
        assert client.is_server_live(**more) and client.is_server_ready(**more) and client.is_model_ready("minilm", **more)
        given = []
        for name, x in inputs.items():
            t = module.InferInput(name, x.shape, "INT64")
            t.set_data_from_numpy(x)
            given.append(t)
        for asked in (None, [module.InferRequestedOutput("last_hidden_state")]):
            answer = client.infer("minilm", given, outputs=asked, request_id="7", **more)
            same(want, pooled(answer.as_numpy("last_hidden_state"), inputs["attention_mask"]), what)

    client = tritonclient.http.InferenceServerClient(url.removeprefix("http://"))
    assert client.get_model_metadata("minilm", headers=key)["inputs"][0]["datatype"] == "INT64"
    run(tritonclient.http, client, version("tritonclient") + ", http", headers=dict(key))  # it writes into them
    client = tritonclient.grpc.InferenceServerClient(grpc_address)
    run(tritonclient.grpc, client, version("tritonclient") + ", grpc", headers={k.lower(): v for k, v in key.items()})


def kserve():
    import asyncio

    import kserve

    async def run():
        inputs = tokens()
        given = []
        for name, x in inputs.items():
            t = kserve.InferInput(name, list(x.shape), "INT64")
            t.set_data_from_numpy(x, binary_data=False)
            given.append(t)
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        assert await client.is_server_ready(url, headers=key)
        answer = await client.infer(url, kserve.InferRequest(model_name="minilm", infer_inputs=given), model_name="minilm", headers=key)
        out = {o.name: o for o in answer.outputs}["last_hidden_state"]
        same(want, pooled(out.as_numpy().reshape(out.shape), inputs["attention_mask"]), version("kserve"))

    asyncio.run(run())


for name in sys.argv[2:]:
    globals()[name]()
