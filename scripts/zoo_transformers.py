"""The transformers of the zoo, one function per network.

Attention products are derived from heads, tokens and head width; public layer files of these networks
drop one token axis there. Embedding look-ups, normalisation and softmax have no MACs in this count.
"""

from __future__ import annotations

from cimopt.types import Workload
from cimopt.workloads.builder import FeatureMap, Network

IMAGE = (3, 224, 224)
CLASSES = 1000


def vision_transformer() -> Workload:
    """ViT-B/16, Dosovitskiy et al. 2020, arXiv 2010.11929, table 1; query, key and value projections listed apart."""
    width, mlp, heads, blocks, patch = 768, 3072, 12, 12, 16
    net = Network(
        "vision_transformer", variant="ViT-B/16, 224 px", source="arXiv 2010.11929, table 1", input_shape=IMAGE
    )
    patches = net.conv(net.input, "conv_proj", width, patch, stride=patch)
    x = FeatureMap(width, patches.height * patches.width + 1, 1)  # and the class token
    for i in range(blocks):
        name = f"encoder.layers.{i}"
        for part in ("query", "key", "value"):
            net.linear(x, f"{name}.self_attention.{part}", width)
        y = net.attention(x, f"{name}.self_attention", heads)
        y = net.linear(y, f"{name}.self_attention.out_proj", width)
        x = net.linear(net.linear(y, f"{name}.mlp.0", mlp), f"{name}.mlp.3", width)
    net.linear(FeatureMap(width, 1, 1), "heads.head", CLASSES)  # of the class token alone
    return net.workload()


def gpt2_medium(tokens: int = 256) -> Workload:
    """GPT-2 medium, Radford et al. 2019, table 2; all tokens at once, the vocabulary head at every position."""
    width, heads, blocks, vocabulary = 1024, 16, 24, 50257
    source = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2"
    net = Network("gpt2_medium", variant=f"{tokens} tokens, prefill", source=source, input_shape=(tokens,))
    x = FeatureMap(width, tokens, 1)
    for i in range(blocks):
        name = f"h.{i}"
        net.linear(x, f"{name}.attn.c_attn", 3 * width)
        y = net.linear(net.attention(x, f"{name}.attn", heads), f"{name}.attn.c_proj", width)
        x = net.linear(net.linear(y, f"{name}.mlp.c_fc", 4 * width), f"{name}.mlp.c_proj", width)
    net.linear(x, "lm_head", vocabulary)
    return net.workload()


def mobilebert(tokens: int = 139) -> Workload:
    """MobileBERT, Sun et al. 2020, arXiv 2004.02984, table 1; encoder without a task head.

    139 tokens, as in the published layer lists this network is compared with.
    """
    embedding, width, inner, heads, blocks, feed_forwards = 128, 512, 128, 4, 24, 4
    net = Network(
        "mobilebert",
        variant=f"{tokens} tokens, no task head",
        source="arXiv 2004.02984, table 1",
        input_shape=(tokens,),
    )
    # Embeddings of a token and its two neighbours side by side.
    x = net.linear(FeatureMap(3 * embedding, tokens, 1), "embeddings.embedding_transformation", width)
    for i in range(blocks):
        name = f"encoder.layer.{i}"
        net.linear(x, f"{name}.bottleneck.input", inner)
        shared = net.linear(x, f"{name}.bottleneck.attention", inner)  # feeds query and key; value sees the full width
        for part, source in (("query", shared), ("key", shared), ("value", x)):
            y = net.linear(source, f"{name}.attention.self.{part}", inner)
        y = net.linear(net.attention(y, f"{name}.attention.self", heads), f"{name}.attention.output", inner)
        for j in range(feed_forwards):
            y = net.linear(net.linear(y, f"{name}.ffn.{j}.intermediate", width), f"{name}.ffn.{j}.output", inner)
        x = net.linear(y, f"{name}.output.bottleneck", width)
    return net.workload()
