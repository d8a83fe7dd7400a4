// SPDX-License-Identifier: Apache-2.0

package canary

import (
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
)

const (
	// length is the length of a value in bytes.
	length = 32
	// part is the number of consecutive bytes of a value that are a leak.
	part = 8
)

// Canaries are the values of a test. The zero value has none. The methods may be called
// concurrently.
type Canaries struct {
	mu     sync.Mutex
	values int
	index  index
	texts  int
	bytes  int64
}

// Leak is a part of a value in a text.
type Leak struct {
	// Value is the number of the value: 1 for the first that New returned.
	Value int
	// Encoding is how the part is encoded, such as "base64".
	Encoding string
	// Offset is where the part begins in the text, in bytes.
	Offset int
}

// String describes the leak without the value.
func (l Leak) String() string {
	return fmt.Sprintf("a part of value %d in %s, at offset %d", l.Value, l.Encoding, l.Offset)
}

// New returns a value of 32 random characters. Most are letters and digits. Some differ
// in the two alphabets of base64, or are escaped in a URL. JSON and %q leave all as they
// are.
func (c *Canaries) New() string {
	value := []byte(rand.Text() + rand.Text())[:length]
	for i := 4; i < len(value); i += 5 {
		value[i] = "?~/+"[i%4]
	}
	c.Add(string(value))
	return string(value)
}

// Add adds a value that the caller has made. It panics if the value has fewer than eight
// bytes.
func (c *Canaries) Add(value string) {
	if len(value) < part {
		panic("canary: a value needs eight bytes")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values++
	c.index.add(c.values, value)
}

// Find returns where parts of the values are in a text: for each value and encoding, the
// first place.
func (c *Canaries) Find(text string) []Leak {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts++
	c.bytes += int64(len(text))
	return c.index.find(text)
}

// Check fails the test if a text holds a part of a value. where names the text.
func (c *Canaries) Check(t testing.TB, where, text string) {
	t.Helper()
	for _, leak := range c.Find(text) {
		from, to := max(0, leak.Offset-200), min(len(text), leak.Offset+100)
		t.Errorf("%s: got %v, want no object data:\n%s", where, leak, text[from:to])
	}
}

// Searched returns how many texts Find and Check have searched, and their bytes.
func (c *Canaries) Searched() (texts int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts, c.bytes
}
