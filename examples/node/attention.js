// Attention maps as they arrive: for each text a header, then the bytes of its tensor in any order.

/** Yields { tokens, layers, heads, shape, maps } for each text; maps is a Float32Array [layers, heads, tokens, tokens], row-major. */
export async function* attentionMaps(client, request, options) {
  const waiting = new Map();
  // Leaving the loop early cancels the call, and reading slowly makes the server wait: nothing piles up on either side.
  for await (const { event, header, chunk } of client.extractAttention({ ...request, dtype: "DATA_TYPE_FLOAT32" }, options)) {
    if (event === "header") {
      const bytes = new Uint8Array(4 * header.attention.shape.reduce((product, length) => product * length));
      waiting.set(header.inputIndex, { header, bytes, missing: bytes.length });
      continue;
    }
    const text = waiting.get(chunk.inputIndex);
    text.bytes.set(chunk.data, chunk.offset);
    text.missing -= chunk.data.length;
    if (text.missing === 0) {
      waiting.delete(chunk.inputIndex);
      const { tokens, layers, heads, attention } = text.header;
      // The wire is little-endian, as is every machine that Node commonly runs on.
      yield { tokens, layers, heads, shape: attention.shape, maps: new Float32Array(text.bytes.buffer) };
    }
  }
}
