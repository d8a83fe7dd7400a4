// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// keyLength is the number of bytes at the start of a pattern by which it is found. No
// pattern is shorter.
const keyLength = 8

// index finds many patterns in one pass over a text.
type index struct {
	filter   [1 << 13]uint64 // a bit for the hash of each key
	patterns map[uint64][]pattern
}

// pattern is a part of a value in an encoding.
type pattern struct {
	text     string
	value    int
	encoding string
}

// add adds each part of a value in each encoding.
func (x *index) add(number int, value string) {
	if x.patterns == nil {
		x.patterns = map[uint64][]pattern{}
	}
	for i := range len(value) - part + 1 {
		for encoding, texts := range encodings(value[i : i+part]) {
			for _, text := range texts {
				key := binary.LittleEndian.Uint64([]byte(text))
				x.filter[hash(key)/64] |= 1 << (hash(key) % 64)
				x.patterns[key] = append(x.patterns[key], pattern{text, number, encoding})
			}
		}
	}
}

// encodings returns the texts in which a part of a value may appear.
func encodings(s string) map[string][]string {
	bytes := []byte(s)
	join := func(verb, separator string) string {
		var texts []string
		for _, b := range bytes {
			texts = append(texts, fmt.Sprintf(verb, b))
		}
		return strings.Join(texts, separator)
	}
	// Of eight bytes, at least six begin at a multiple of three in the encoded bytes,
	// and so have four characters of their own for each three of them.
	var base []string
	for i := range part - 5 {
		base = append(base, base64.StdEncoding.EncodeToString(bytes[i:i+6]), base64.URLEncoding.EncodeToString(bytes[i:i+6]))
	}
	return map[string][]string{
		"raw":    {s},
		"base64": base,
		"hex":    {join("%02x", ""), join("%02X", ""), join("%02x", " "), join("%02X", " "), join("%02x", ":"), join("%02X", ":")},
		"decimal": {
			join("%d", " "), join("%d", ","), join("%d", ", "), join("%#02x", ", "), join("%#02x", ","), join("%#02x", " "),
		},
		"URL": escaped(s),
	}
}

// escaped returns s in a URL, if it is another text there.
func escaped(s string) []string {
	lower := strings.NewReplacer("%2B", "%2b", "%2F", "%2f", "%3F", "%3f")
	texts := []string{url.QueryEscape(s), url.PathEscape(s)}
	texts = append(texts, lower.Replace(texts[0]), lower.Replace(texts[1]))
	return slices.DeleteFunc(texts, func(text string) bool { return text == s })
}

// find returns the first place of each value and encoding.
func (x *index) find(text string) []Leak {
	type kind struct {
		value    int
		encoding string
	}
	found := map[kind]bool{}
	var leaks []Leak
	for i := range max(0, len(text)-keyLength+1) {
		key := word(text[i : i+keyLength])
		if x.filter[hash(key)/64]&(1<<(hash(key)%64)) == 0 {
			continue
		}
		for _, p := range x.patterns[key] {
			if k := (kind{p.value, p.encoding}); !found[k] && strings.HasPrefix(text[i:], p.text) {
				found[k] = true
				leaks = append(leaks, Leak{p.value, p.encoding, i})
			}
		}
	}
	return leaks
}

// word returns the first eight bytes of s as a number.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// hash returns 19 bits of a key.
func hash(key uint64) uint64 { return key * 0x9e3779b97f4a7c15 >> 45 }
