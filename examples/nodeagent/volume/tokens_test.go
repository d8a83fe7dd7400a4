// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// withToken adds a token to a payload.
func withToken(payload Payload, path, token string) Payload {
	payload[path] = File{Data: []byte(token), Mode: 0o644, Token: true}
	return payload
}

// checkToken compares what a new process takes for the token of a path.
func checkToken(t *testing.T, root string, uid types.UID, path, want string) {
	t.Helper()
	tree := openTree(t, root)
	defer release(tree.pods)
	got, ok := tree.Token(uid, "v", path)
	if string(got.Data) != want || ok != (want != "") || got.Token != ok {
		t.Errorf("token at %q: got %q (found: %v), want %q", path, got.Data, ok, want)
	}
	if ok && got.Mode != 0o644 {
		t.Errorf("mode of the token: got %#o, want 0644", got.Mode)
	}
}

// TestToken: a token is one because it was written as a token, and not because of its path.
func TestToken(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	for _, step := range []struct {
		name    string
		payload Payload
		want    string // the token at t/token
	}{
		{"another file at the path", text("t/token", "of a Secret"), ""},
		{"a token", withToken(text("a", "1"), "t/token", "one"), "one"},
		{"the same token, another file", withToken(text("a", "2"), "t/token", "one"), "one"},
		{"the next token", withToken(text("a", "2"), "t/token", "two"), "two"},
		{"a token elsewhere", withToken(text("t/token", "two"), "u", "two"), ""},
		{"another file again", text("t/token", "of a Secret"), ""},
		{"no file", text("a", "1"), ""},
		{"a token again", withToken(text("a", "1"), "t/token", "two"), "two"},
	} {
		if _, err := tree.Write("uid-1", "v", step.payload); err != nil {
			t.Fatal(err)
		}
		checkToken(t, root, "uid-1", "t/token", step.want)
		if t.Failed() {
			t.Fatal(step.name)
		}
	}
	checkToken(t, root, "uid-1", "./t//token", "two")
	for _, path := range []string{"a", "t", "", "..", "../v/t/token", "/t/token"} {
		checkToken(t, root, "uid-1", path, "")
	}
	checkToken(t, root, "uid-2", "t/token", "")
	if _, ok := tree.Token("uid-1", "../volumes/v", "t/token"); ok {
		t.Error("a name of a volume that leads elsewhere: got a token, want none")
	}
	if err := tree.Remove("uid-1"); err != nil {
		t.Error(err)
	}
	checkToken(t, root, "uid-1", "t/token", "")
}

// TestTokenReplaced: what a container puts in the place of its token does not count as one, nor does a record that a
// crash or another program has left.
func TestTokenReplaced(t *testing.T) {
	for name, damage := range map[string]func(pod string) error{
		"the file is another one": func(pod string) error {
			return os.WriteFile(filepath.Join(pod, "volumes/v/..data/token"), []byte("planted"), 0o644)
		},
		"the file is a link to another pod": func(pod string) error {
			return relink("../../../../uid-2/volumes/v/..data/token", filepath.Join(pod, "volumes/v/..data/token"))
		},
		"the version is a link to that of another pod": func(pod string) error {
			version, err := os.Readlink(filepath.Join(pod, "volumes/v/..data"))
			return errors.Join(err, os.RemoveAll(filepath.Join(pod, "volumes/v", version)),
				os.Symlink("../../../uid-2/volumes/v/..data", filepath.Join(pod, "volumes/v", version)))
		},
		"the record is empty": func(pod string) error { return os.WriteFile(filepath.Join(pod, "tokens/v"), nil, 0o600) },
		"the record is gone":  func(pod string) error { return os.Remove(filepath.Join(pod, "tokens/v")) },
		"the record is null":  func(pod string) error { return os.WriteFile(filepath.Join(pod, "tokens/v"), []byte("null"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree := openTree(t, root)
			for uid, token := range map[types.UID]string{"uid-1": "mine", "uid-2": "another pod's"} {
				if _, err := tree.Write(uid, "v", withToken(Payload{}, "token", token)); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(filepath.Join(root, "pods/uid-1")); err != nil {
				t.Fatal(err)
			}
			checkToken(t, root, "uid-1", "token", "")
			if _, err := tree.Write("uid-1", "v", withToken(Payload{}, "token", "next")); err != nil {
				t.Fatal(err)
			}
			checkToken(t, root, "uid-1", "token", "next")
			checkToken(t, root, "uid-2", "token", "another pod's")
		})
	}
}

// TestTokenRecordFails: a version whose tokens cannot be recorded is not written: a token that counts as another file
// would be removed after a restart.
func TestTokenRecordFails(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	if _, err := tree.Write("uid-1", "v", text("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "pods/uid-1/tokens"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := tree.Write("uid-1", "v", withToken(text("a", "2"), "token", "one"))
	checkError(t, err, "tokens")
	checkVolume(t, tree.Path("uid-1", "v"), text("a", "1"))
}
