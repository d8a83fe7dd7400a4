// SPDX-License-Identifier: Apache-2.0

package results

// compression is a section with figures of runs of its own, which results.json does not have.
const compression = `## Kubernetes 1.37

kube-apiserver 1.37 compresses a WatchList, which is what client-go sends by default, for a client that accepts gzip:
the feature gate ` + "`WatchListCompression`" + ` is beta, and on by default. Go's net/http accepts gzip unless it is told not to.
It then keeps a decompressor for each stream, as long as that is open. A heap profile of the floor shows what one takes:
32.8 kB for the window of compress/flate, 7.7 kB for the rest of it, and 4.2 kB for a buffered reader. refwatch asks for
no compression of watches, with either way to read streams. Bytes of heap and stacks per object, 5,000 Secrets, quiet,
one round on 2026-11-26 on a machine that did other work, with client-go v0.36.3 (kubelet's varies by some KB):

| kube-apiserver | refwatch | kubelet | informer | floor | refwatch-nethttp |
|---|---|---|---|---|---|
| 1.36.3 | 3333 | 36676 | 79316 | 17296 | 17769 |
| 1.37.2 | 3356 | 85414 | 125163 | 69450 | 17763 |
| 1.37.2, clients with DisableCompression | 3371 | 43358 | 79086 | 17364 | 17773 |

The way out for other clients is ` + "`DisableCompression: true`" + ` in their rest.Config. Their lists are then not compressed
either. The server keeps nothing per stream: it returns its compressor to a pool after each flush. To measure the second
row again, in test/bench: ` + "`KUBERNETES=1.37 go run . -scenarios memory -sizes 5000 -rounds 1 -out FOLDER -contenders`" + `
` + "`refwatch,kubelet,informer,floor,refwatch-nethttp`" + `. For the last row add ` + "`-disable-compression`" + `.

`
