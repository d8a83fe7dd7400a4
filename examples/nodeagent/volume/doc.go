// SPDX-License-Identifier: Apache-2.0

// Package volume turns the volumes of a pod into files that a container can read.
//
// [Build] computes the files of a volume, a [Payload], from the objects that the volume references. [Tree] is the
// folder of all volumes; its Write replaces a payload so that a reader sees one version or the next, never a mixture.
// Neither uses the API server: the caller's [Getter] returns the objects.
//
// # Layout
//
// The layout of a volume is that of kubelet's AtomicWriter, which programs in containers rely on:
//
//	ROOT/pods/UID/volumes/NAME/
//	    ..2026_11_20_09_30_00.8674665223082153551/   one version, complete before anything points to it
//	        tls.crt
//	        conf/app.yaml
//	    ..data   -> ..2026_11_20_09_30_00.8674665223082153551
//	    tls.crt  -> ..data/tls.crt
//	    conf     -> ..data/conf
//
// An update writes a new version beside the old one and renames a new ..data over the old one: this changes all files
// in one step. Then the old version is removed. A reader that resolves ..data once and reads below the result sees one
// version. If that version was removed meanwhile, the reader gets "no such file" and must resolve ..data again.
//
// ROOT/pods/UID/tokens/NAME records which files of a version are tokens of the service account, see Tree.Token.
//
// # Security
//
// Names come from the API, and so from every user who may create a pod. They are validated, and all writes go
// through [os.Root]: neither a path in items nor a link in a volume leads outside. Files
// have exactly the mode that the pod asks for, whatever the umask.
//
// Write removes only what Write has created, also in an earlier process: versions, ..data, and links of the form NAME
// -> ..data/NAME. What other programs put into the folder of a volume stays, as with kubelet: a container may have
// another volume mounted on it. If it has the name of a file of the volume, Write returns an error, and the other files
// are updated; only a link is replaced. A version and all that is in it belongs to this package. Nothing is emptied if
// something is mounted on it or below it: the call fails and names the mount.
//
// The folder of a deleted pod is renamed before it is emptied, so that no reader sees a part of it.
// Volumes in memory, see Tree.WriteInMemory, are unmounted before that.
//
// # What is left out
//
// Ownership (fsGroup, runAsUser), SELinux labels, and bind mounts into containers: a real agent adds them
// around this package. There is no fsync either: after a crash the next Write compares the files with the
// payload and repairs them.
package volume
