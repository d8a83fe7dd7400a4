// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"strings"
	"testing"
)

func TestCleanPath(t *testing.T) {
	long := strings.Repeat("n", maxNameLength)
	for name, tc := range map[string]struct {
		path    string
		want    string
		wantErr string
	}{
		"a name":                 {path: "tls.crt", want: "tls.crt"},
		"nested":                 {path: "a/b/c", want: "a/b/c"},
		"extra slashes":          {path: "./a//b/", want: "a/b"},
		"dots in a name":         {path: "a..b", want: "a..b"},
		"hidden":                 {path: ".hidden", want: ".hidden"},
		"two dots, below":        {path: "a/..b", want: "a/..b"},
		"longest name":           {path: long, want: long},
		"empty":                  {path: "", wantErr: "is empty"},
		"absolute":               {path: "/etc/passwd", wantErr: "is absolute"},
		"escape":                 {path: "../x", wantErr: `contains ".."`},
		"escape, later":          {path: "a/../../x", wantErr: `contains ".."`},
		"up and down inside":     {path: "a/../b", wantErr: `contains ".."`},
		"two dots alone":         {path: "..", wantErr: `contains ".."`},
		"reserved":               {path: "..data", wantErr: `starts with ".."`},
		"reserved, nested":       {path: "..data/tls.crt", wantErr: `starts with ".."`},
		"reserved, after a dot":  {path: "./..data", wantErr: `starts with ".."`},
		"the volume itself":      {path: "./", wantErr: "names the volume itself"},
		"zero byte":              {path: "a\x00b", wantErr: "zero byte"},
		"name too long":          {path: "a/" + long + "n", wantErr: "longer than 255"},
		"path too long":          {path: strings.Repeat("a/", maxPathLength/2) + "a", wantErr: "longer than 4096"},
		"deepest path, no error": {path: "./" + strings.Repeat("a//", maxDepth) + "b", want: strings.Repeat("a/", maxDepth) + "b"},
		"path too deep":          {path: strings.Repeat("a/", maxDepth+1) + "b", wantErr: "more than 64 folders deep"},
		"2000 folders":           {path: strings.Repeat("a/", 2000) + "b", wantErr: "more than 64 folders deep"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cleanPath(tc.path)
			if got != tc.want {
				t.Errorf("cleanPath(%.40q): got %.40q, want %.40q", tc.path, got, tc.want)
			}
			checkError(t, err, tc.wantErr)
		})
	}
}

func TestPayloadValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		payload Payload
		wantErr string
	}{
		"nil":               {},
		"empty":             {payload: Payload{}},
		"files and folders": {payload: Payload{"a": {}, "b/c": {}, "b/d": {Mode: 0o777}}},
		"not clean":         {payload: Payload{"a//b": {}}, wantErr: `not in its clean form "a/b"`},
		"escape":            {payload: Payload{"../x": {}}, wantErr: `contains ".."`},
		"file and folder":   {payload: Payload{"a": {}, "a/b/c": {}}, wantErr: `"a" is both a file and a folder of "a/b/c"`},
		"setuid":            {payload: Payload{"a": {Mode: 0o4755}}, wantErr: "mode 04755: use permission bits only"},
		"negative":          {payload: Payload{"a": {Mode: -1}}, wantErr: "use permission bits only"},
	} {
		t.Run(name, func(t *testing.T) { checkError(t, tc.payload.validate(), tc.wantErr) })
	}
}

// FuzzCleanPath checks that a clean path stays inside the volume and is not reserved, and that cleaning it again does
// not change it.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"a", "a/b/c", "../x", "/x", "..data/x", "./a//b/", "a/./../b", "...", ".", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(checkCleanPath)
}

func checkCleanPath(t *testing.T, name string) {
	clean, err := cleanPath(name)
	if err != nil {
		return
	}
	if strings.HasPrefix(clean, "..") || strings.HasPrefix(clean, "/") || strings.Contains("/"+clean+"/", "/../") {
		t.Errorf("cleanPath(%q): got %q, which leaves the volume or is reserved", name, clean)
	}
	if again, err := cleanPath(clean); err != nil || again != clean {
		t.Errorf("cleanPath(%q): got %q and %v, want it unchanged", clean, again, err)
	}
}

// checkError fails unless err contains want, or is nil where want is empty.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case want != "" && err == nil:
		t.Errorf("got no error, want one with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("got error %v, want one with %q", err, want)
	}
}
