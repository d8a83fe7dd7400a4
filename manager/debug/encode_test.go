// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// TestEncode compares the JSON with that of package encoding/json, for objects whose fields are all set, set at random,
// or not set.
func TestEncode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	objects, plain := []*Object{{Owners: []Owner{}}}, []Object{{Owners: []Owner{}}}
	for i := range 200 {
		object := &Object{Owners: []Owner{}}
		fill(reflect.ValueOf(object).Elem(), random, i == 0)
		objects, plain = append(objects, object), append(plain, *object)
	}
	report := Report{Time: time.Now(), Gates: []Gate{{Name: "<main>"}}, Notes: []Note{{Text: "\u2028"}}, Connections: []Connection{}, Causes: []Cause{}}
	for _, count := range []int{0, 1, len(objects)} {
		var got, want bytes.Buffer
		to := bufio.NewWriter(&got)
		if err := errors.Join(report.encode(to, objects[:count]), to.Flush()); err != nil {
			t.Fatal(err)
		}
		whole := report
		whole.Objects = plain[:count]
		if err := json.NewEncoder(&want).Encode(whole); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%d objects:\ngot  %s\nwant %s", count, got.String(), want.String())
		}
	}
}

// fill sets all exported fields of a struct, or each with a probability of a half.
func fill(value reflect.Value, random *rand.Rand, all bool) {
	texts := []string{"default", `a "quoted" \ text`, "<&>", "é\u2028\n\x00\x7f", "\xff"}
	for i := range value.NumField() {
		if !value.Type().Field(i).IsExported() || !all && random.IntN(2) == 0 {
			continue
		}
		switch field := value.Field(i); field.Interface().(type) {
		case bool:
			field.SetBool(true)
		case int:
			field.SetInt(1 + random.Int64N(1_000_000))
		case *float64:
			field.Set(reflect.ValueOf(new(random.Float64()*1e6 + 1e-6)))
		case time.Time:
			field.Set(reflect.ValueOf(time.Unix(random.Int64N(1e10), random.Int64N(1e9))))
		case []Owner:
			owners := make([]Owner, 1+random.IntN(3))
			for j := range owners {
				fill(reflect.ValueOf(&owners[j]).Elem(), random, all)
			}
			field.Set(reflect.ValueOf(owners))
		default:
			if field.Kind() != reflect.String {
				panic(fmt.Sprintf("a field of type %v: fill and Object.appendJSON do not know it", field.Type()))
			}
			field.SetString(texts[random.IntN(len(texts))])
		}
	}
}
