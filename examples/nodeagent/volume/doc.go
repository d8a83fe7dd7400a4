// SPDX-License-Identifier: Apache-2.0

// Package volume turns the volumes of a pod into files that a container can read.
//
// [Build] computes what a volume holds, a [Payload], from the objects that it names. [Tree] is where
// volumes live on disk; its Write puts a payload there so that a reader sees all of one version or all of
// the next. Neither knows the API server: the caller's [Getter] brings the objects.
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
// An update writes a new version beside the old one and renames a new ..data over the old: that one step
// makes all files new at once. Then the old version is removed. A reader that resolves ..data once and
// reads below what it got sees one version; if it was slow and that version went meanwhile it gets "no
// such file", never a mixture, and resolves again.
//
// # Who may write where
//
// Names come from the API, so from whoever may create a pod. They are validated, and all writing goes
// through [os.Root], so that neither a path in items nor a link planted in a volume leads outside. Files
// have exactly the mode that the pod asks for, whatever the umask. A volume's folder belongs to this
// package: anything in it that is not of the payload is removed at the next Write. A folder on which or below which
// something is mounted is never emptied: the call fails and names the mount.
//
// The folder of a pod that is gone gets another name before it is emptied, so that nobody reads half of it.
//
// # What is left out
//
// Ownership (fsGroup, runAsUser), SELinux labels, a tmpfs to keep secrets off the disk, and bind mounts
// into containers: a real agent adds them around this package. There is no fsync either. After a crash
// the next Write compares what is there with what should be, and repairs it.
package volume
