// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stays reports whether a file may have that path in a volume: Kubernetes' rule for "path" of
// a KeyToPath, and the limits of this package, written in another way than checkPath.
func stays(name string) bool {
	elements := strings.Split(name, "/")
	clean := path.Clean(name)
	return filepath.IsLocal(name) && clean != "." && !slices.Contains(elements, "..") && !strings.Contains(name, "\x00") &&
		!strings.HasPrefix(clean, "..") && len(name) <= 4096 && strings.Count(clean, "/") <= 64 &&
		!slices.ContainsFunc(elements, func(element string) bool { return len(element) > 255 })
}

// FuzzVolume builds a volume of a Secret with any keys, items and modes, and writes it into a
// folder in which another program has left a link to outside. The volume has exactly the files
// that the API's rules give it and that link, and nothing else is created or changed.
func FuzzVolume(f *testing.F) {
	for i, name := range []string{"tls.crt", "a/b/c", "../x", "/x", "..data/x", "..data", "..data_tmp", "./a//b/", "a/./../b", "...", ".", "a\x00", "", "\xff",
		strings.Repeat("a/", 65) + "a", strings.Repeat("n", 256), "a\nb", "..2026_01_01"} {
		f.Add("3f6c1c9a", "certs", "key", name, "other", int32(0o644), byte(i)|1)
		f.Add("3f6c1c9a", "certs", name, "x", "x/y", int32(0o400), byte(254))
		f.Add(name, "certs", "a", "b", "c", int32(0o7777), byte(3))
		f.Add("pod", name, "a", "b", "a", int32(-1), byte(2))
	}
	f.Fuzz(checkVolumeOf)
}

// newFuzzTree returns a folder with an empty tree, and a folder outside of that.
func newFuzzTree(t *testing.T) (root string, tree *Tree) {
	t.Helper()
	root = t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "outside"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := Open(filepath.Join(root, "root"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return root, tree
}

func checkVolumeOf(t *testing.T, uid, name, key, first, second string, mode int32, flags byte) {
	root, tree := newFuzzTree(t)
	volume, want, valid := fuzzVolume(name, key, first, second, mode, flags)
	getter := objects{secrets: map[string]*corev1.Secret{"s": {Data: map[string][]byte{key: []byte("canary-1"), "fixed": []byte("canary-2")}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", UID: types.UID(uid)}}
	payload, err := Build(t.Context(), pod, volume, getter)
	if (err == nil) != valid {
		t.Fatalf("Build with key %q, paths %q and %q, mode %#o: got %v, valid is %v", key, first, second, mode, err, valid)
	}
	if err != nil {
		if strings.Contains(err.Error(), "canary") && !strings.Contains(key+first+second, "canary") {
			t.Errorf("the error has data: %v", err)
		}
		payload = Payload{first: {Data: []byte("canary"), Mode: mode}} // Write must find the error, too
	}
	defer checkRemoved(t, tree, pod.UID, root)
	planted := ""
	if flags&8 != 0 {
		planted = plantLink(tree, pod.UID, name, first, filepath.Join(root, "outside"))
	}
	_, writeErr := tree.Write(pod.UID, name, payload)
	checkOnly(t, root, uid)
	if err == nil && writeErr == nil {
		if planted != "" && !want.visible()[filepath.Base(planted)] {
			if err := os.Remove(planted); err != nil { // what another program left there stays
				t.Error(err)
			}
		}
		if utf8.ValidString(key) && utf8.ValidString(first) && utf8.ValidString(second) { // else io/fs cannot read the names
			checkVolume(t, tree.Path(pod.UID, name), want)
		}
		if changed, err := tree.Write(pod.UID, name, payload); changed || err != nil {
			t.Errorf("Write again: got changed %v and %v, want neither", changed, err)
		}
	}
	if err != nil && writeErr == nil && (!stays(first) || mode&^0o777 != 0) {
		t.Errorf("Write of %q with mode %#o: got no error", first, mode)
	}
}

// fuzzVolume returns a volume, and the files that it must have if it is valid.
func fuzzVolume(name, key, first, second string, mode int32, flags byte) (volume *corev1.Volume, want Payload, valid bool) {
	source := &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: &mode}
	volume = &corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: source}}
	files := []corev1.KeyToPath{{Key: key, Path: key}, {Key: "fixed", Path: "fixed"}} // without items
	if flags&1 != 0 {
		files = []corev1.KeyToPath{{Key: key, Path: first}, {Key: "fixed", Path: second}}
		source.Items = files
	}
	data := map[string]string{key: "canary-1"}
	data["fixed"] = "canary-2" // as key may be
	want = Payload{}
	for _, file := range files {
		want[path.Clean(file.Path)] = File{Data: []byte(data[file.Key]), Mode: mode}
	}
	valid = stays(files[0].Path) && stays(files[1].Path) && fits(mode, path.Clean(files[0].Path), path.Clean(files[1].Path))
	return volume, want, valid
}

// fits reports whether two files can have a mode, and can stand beside each other.
func fits(mode int32, a, b string) bool {
	return mode&^0o777 == 0 && !strings.HasPrefix(a, b+"/") && !strings.HasPrefix(b, a+"/")
}

// plantLink makes links to outside in the folder of a volume, as a program with the right to write there could. It
// returns the path of the one without a reserved name, or "".
func plantLink(tree *Tree, uid types.UID, volume, name, outside string) string {
	if checkUID(uid) != nil || !stays(volume) || !stays(name) {
		return ""
	}
	folder := tree.Path(uid, volume)
	_ = os.MkdirAll(folder, 0o755)
	first, _, _ := strings.Cut(path.Clean(name), "/")
	for _, link := range []string{first, dataLink, tempLink} {
		_ = os.Symlink(outside, filepath.Join(folder, link))
	}
	return filepath.Join(folder, first)
}

// checkOnly checks that nothing was created but the folder of one pod.
func checkOnly(t *testing.T, root, uid string) {
	t.Helper()
	for folder, allowed := range map[string][]string{
		".": {"outside", "root"}, "outside": {}, "root": {ownerFile, podsDir}, "root/" + podsDir: {uid},
	} {
		entries, err := fs.ReadDir(os.DirFS(root), folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !slices.Contains(allowed, entry.Name()) {
				t.Errorf("pod UID %q: got %s/%s", uid, folder, entry.Name())
			}
		}
	}
}

// checkRemoved removes the folder of the pod, and checks that nothing is left of it.
func checkRemoved(t *testing.T, tree *Tree, uid types.UID, root string) {
	t.Helper()
	if err := tree.Remove(uid); (err == nil) != (checkUID(uid) == nil) {
		t.Errorf("Remove of %q: got %v", uid, err)
	}
	checkOnly(t, root, "")
}
