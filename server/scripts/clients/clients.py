"""Python's clients: see clients.sh."""
import base64
import gzip
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
ranks = [json.loads(line) for line in open(f"{work}/ranks.jsonl")]
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


def recorded(model):
    """What transformers answered, which models/scripts/pipelines.py recorded."""
    with gzip.open(f"{os.environ['SERVED_ANSWERS']}/{model}/answers.json.gz") as f:
        return json.load(f)


def alike(want, got, fields, what):
    """Compares results with recorded lists of their fields."""
    assert len(want) == len(got), f"{what}: {len(got)} results instead of {len(want)}"
    for w, g in zip(want, got):
        for x, field in zip(w, fields):
            y = getattr(g, field)
            assert abs(x - y) < 1e-5 if isinstance(x, float) else x == y, f"{what}: {field} is {y} instead of {x}"


def tasks():
    """The tasks of huggingface_hub, against transformers' pipelines."""
    from huggingface_hub import InferenceClient

    def client(model):
        return InferenceClient(model=f"{url}/models/{model}", token="secret")

    all_texts = json.load(open(f"{os.environ['SERVED_ANSWERS']}/texts.json"))
    some = range(12, 60)
    for i, labels in ((i, recorded("classify")["texts"][i]) for i in some):
        alike(labels, client("classify").text_classification(all_texts[i]), ["label", "score"], "text_classification")
        alike(labels[:1], client("classify").text_classification(all_texts[i], top_k=1), ["label", "score"], "text_classification, top 1")
    print("ok", version("huggingface_hub"), "text_classification")
    entities = recorded("ner")
    for how, label in (("none", "entity"), ("simple", "entity_group"), ("first", "entity_group"), ("average", "entity_group"), ("max", "entity_group")):
        for i in some:
            got = client("ner").token_classification(all_texts[i], aggregation_strategy=how, stride=16)
            if how == "none" and len(all_texts[i]) > 60:
                continue  # recorded without windows
            alike(entities[how][i], got, [label, "score", "start", "end"], f"token_classification, {how}")
        print("ok", version("huggingface_hub"), f"token_classification, {how}")
    zero = recorded("nli")
    for text, single, multi in zip(zero["texts"], zero["single"], zero["multi"]):
        alike(single, client("nli").zero_shot_classification(text, zero["labels"]), ["label", "score"], "zero_shot_classification")
        got = client("nli").zero_shot_classification(text, zero["labels"], multi_label=True, hypothesis_template="It is about {}.")
        alike(multi, got, ["label", "score"], "zero_shot_classification, several labels")
    print("ok", version("huggingface_hub"), "zero_shot_classification")
    qa = recorded("qa")
    fields = ["answer", "score", "start", "end"]
    for (question, context), one, three in list(zip(qa["asked"], qa["top1"], qa["top3"]))[:50]:
        got = client("qa").question_answering(question=question, context=context, doc_stride=16)
        alike([a for a in one if a[1]], [got], fields, "question_answering")
        got = client("qa").question_answering(question=question, context=context, doc_stride=16, top_k=3)
        alike([a for a in three if a[1]], got, fields, "question_answering, top 3")
    print("ok", version("huggingface_hub"), "question_answering")
    masks = recorded("splade")
    for text, words in list(zip(masks["masks"], masks["filled"]))[:50]:
        got = client("splade/pipeline/fill-mask").fill_mask(text)
        alike(words, got, ["token", "token_str", "score", "sequence"], "fill_mask")
    got = client("splade/pipeline/fill-mask").fill_mask("the [MASK] sat", targets=["cat", "the"], top_k=1)
    assert len(got) == 1 and got[0].token_str in ("cat", "the"), got
    print("ok", version("huggingface_hub"), "fill_mask")
    vectors = client("colbert").feature_extraction(texts[0])
    assert vectors.ndim == 3 and vectors.shape[0] == 1, vectors.shape
    print("ok", version("huggingface_hub"), "feature_extraction, a vector for each token")


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
    got = client.rerank(model="rerank", query=texts[0], documents=texts[1:], max_tokens_per_doc=4096, top_n=len(texts) - 1)
    ranked(got.results, "cohere, max_tokens_per_doc")
    eight = client.embed(model="minilm", texts=texts, input_type="search_document", embedding_types=["int8", "uint8"]).embeddings
    signed = np.asarray(eight.int8, float)
    assert np.array_equal(signed + 128, eight.uint8), "cohere, int8 and uint8"
    cosines = (signed * want).sum(1) / np.linalg.norm(signed, axis=1)
    assert cosines.min() > 0.999, cosines
    types = ["float", "base64", "binary", "ubinary"]
    got = client.embed(model="minilm", texts=texts, input_type="search_document", embedding_types=types).embeddings
    same(want, got.float_, "cohere, embed")
    same(want, [np.frombuffer(base64.b64decode(v), np.float32).tolist() for v in got.base64], "cohere, embed, base64")
    bits = np.packbits(np.asarray(want) > 0, axis=1)
    assert np.array_equal(bits, np.asarray(got.ubinary)) and np.array_equal(bits.astype(int) - 128, np.asarray(got.binary)), "cohere, bits"
    old = cohere.Client(api_key="secret", base_url=url).embed(model="minilm", texts=texts, input_type="search_query", truncate="END")
    same(want, old.embeddings, "cohere, embed of version 1")


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

    client = ollama.Client(host=url, headers=key)
    same(want, client.embed(model="minilm", input=texts).embeddings, version("ollama"))
    same(want[:1], [client.embeddings(model="minilm", prompt=texts[0]).embedding], "ollama, embeddings")
    listed = {m.model: m for m in client.list().models}
    assert listed["minilm:latest"].size > 0 and len(listed["minilm:latest"].digest) == 64 and listed["minilm:latest"].modified_at, listed
    shown = client.show("minilm")
    assert shown.capabilities == ["embedding"] and shown.details.family == "BertModel" and shown.modelinfo["BertModel.context_length"], shown
    running = {m.model: m for m in client.ps().models}
    assert running["minilm:latest"].context_length and running["minilm:latest"].expires_at, running
    print("ok ollama, list, show and ps")


def infinity():
    """The paths of infinity, by openai's client and as its documentation asks."""
    import openai
    import requests

    client = openai.OpenAI(base_url=url, api_key="secret")
    same(want, [d.embedding for d in client.embeddings.create(model="minilm", input=texts).data], "infinity's paths")
    assert [m.id for m in client.models.list()][0] == "minilm"
    got = client.embeddings.create(model="prompts", input=texts, extra_body={"input_type": "query"}).data[0].embedding
    plain = client.embeddings.create(model="prompts", input=texts).data[0].embedding
    assert abs(np.asarray(got) - plain).max() > 1e-3, "input_type changes nothing"
    body = {"model": "rerank", "query": texts[0], "documents": texts[1:], "return_documents": False, "raw_scores": False}
    got = requests.post(f"{url}/rerank", json=body, headers=key).json()["results"]
    assert [r["index"] for r in got] == [r["index"] for r in ranks], got
    print("ok infinity's models, input_type and rerank")


def infinity_client():
    """infinity's own client: the routes that its generated code reads."""
    from infinity_client import Client
    from infinity_client.api.default import classify, embeddings, health, models, rerank
    from infinity_client.models import ClassifyInput, RerankInput

    client = Client(base_url=url, headers=key, raise_on_unexpected_status=True)
    assert health.sync(client=client).additional_properties["unix"] > 0
    assert models.sync(client=client).data[0].id == "minilm"
    from infinity_client.models import OpenAIEmbeddingInputText

    got = embeddings.sync(client=client, body=OpenAIEmbeddingInputText(input_=texts, model="minilm"))
    same(want, [d.embedding for d in got.data], version("infinity_client"))
    got = rerank.sync(client=client, body=RerankInput(query=texts[0], documents=texts[1:], model="rerank"))
    assert [r.index for r in got.results] == [r["index"] for r in ranks] and got.usage.prompt_tokens > 0, got
    got = classify.sync(client=client, body=ClassifyInput(input_=texts[:2], model="classify"))
    assert len(got.data) == 2 and got.data[0][0].label, got
    print("ok infinity_client, health, models, rerank and classify")


def weaviate():
    """The bodies that Weaviate's modules send: its vectorizers are Go code of the database, which no registry has as a client."""
    import requests

    for path, body in (
        ("/models/minilm/pipeline/feature-extraction", {"inputs": texts, "options": {"wait_for_model": False, "use_gpu": False, "use_cache": True}}),
        ("/embed", {"model": "minilm", "inputs": texts, "options": {"wait_for_model": True}}),
    ):
        got = requests.post(url + path, json=body, headers=key)
        assert got.status_code == 200, got.text
        same(want, got.json(), "Weaviate's text2vec-huggingface, " + path)
    body = {"model": "minilm", "input": texts, "task": "retrieval.passage", "normalized": True, "embedding_type": "float"}
    got = requests.post(f"{url}/v1/embeddings", json=body, headers=key).json()
    same(want, [d["embedding"] for d in got["data"]], "Weaviate's text2vec-jinaai")
    body = {"model": "minilm", "input": texts, "truncation": True, "input_type": "document"}
    got = requests.post(f"{url}/v1/embeddings", json=body, headers=key).json()
    same(want, [d["embedding"] for d in got["data"]], "Weaviate's text2vec-voyageai")


def voyage():
    import voyageai

    client = voyageai.Client(api_key="secret", base_url=f"{url}/v1")
    same(want, client.embed(texts, model="minilm", input_type="document").embeddings, version("voyageai"))
    ranked(client.rerank(texts[0], texts[1:], model="rerank", top_k=len(texts) - 1).results, "voyageai, rerank")


def vllm():
    """vLLM's routes, as its documentation asks: its clients are openai's and requests."""
    import requests

    def ask(path, **body):
        answer = requests.post(url + path, json=body, headers=key)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    scores = {r["index"]: r["score"] for r in ranks}
    for path in ("/score", "/v1/score"):
        for names in (("text_1", "text_2"), ("queries", "documents")):
            got = ask(path, **{"model": "rerank", names[0]: texts[0], names[1]: texts[1:], "truncate_prompt_tokens": -1})
            assert all(abs(d["score"] - scores[d["index"]]) < 1e-5 for d in got), got
    assert abs(sum(ask("/classify", model="classify", input=texts[0])[0]["probs"]) - 1) < 1e-5
    same(want, [d["data"] for d in ask("/pooling", model="minilm", input=texts)], "vLLM's score, classify and pooling")


def litellm():
    import litellm

    def same_vectors(what, **how):
        answer = litellm.embedding(input=texts, api_key="secret", **how)
        same(want, [d["embedding"] for d in answer.data], f"{version('litellm')}, {what}")

    same_vectors("openai", model="openai/minilm", api_base=f"{url}/v1")
    same_vectors("infinity", model="infinity/minilm", api_base=url)
    answer = litellm.embedding(input=texts, api_key="secret", model="infinity/minilm", api_base=url, dimensions=7)
    assert len(answer.data[0]["embedding"]) == 7, "litellm, output_dimension"
    same_vectors("cohere", model="cohere/minilm", api_base=f"{url}/v2/embed")
    for provider, base in (("cohere", f"{url}/v2/rerank"), ("infinity", url), ("jina_ai", f"{url}/v1")):
        answer = litellm.rerank(model=f"{provider}/rerank", query=texts[0], documents=texts[1:], top_n=len(texts) - 1, api_key="secret", api_base=base)
        assert [r["index"] for r in answer.results] == [r["index"] for r in ranks], answer
        print("ok litellm, rerank as", provider)


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
        plain = {"as_json": True} if module is tritonclient.grpc else {}
        more = {"headers": {k: v for k, v in more["headers"].items() if k.lower() == "authorization"}, **plain}  # infer writes into them
        config, index = client.get_model_config("minilm", **more), client.get_model_repository_index(**more)
        stats = client.get_inference_statistics(**more)
        config = config.get("config", config)
        assert config["name"] == "minilm" and config["input"][0]["data_type"] == "TYPE_INT64", config
        index = index["models"] if isinstance(index, dict) else index
        assert index[0]["name"] == "minilm" and index[0]["state"] == "READY", index
        assert int(stats["model_stats"][0]["inference_stats"]["success"]["count"]) >= 2, stats
        print("ok", what + ", config, index and statistics")

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
