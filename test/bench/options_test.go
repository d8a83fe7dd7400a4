// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseDefaults(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 5 || o.outageRounds != 5 || o.size != 5000 || o.idle != time.Minute || o.longOutage != time.Minute || o.quick {
		t.Errorf("defaults: got %+v", o)
	}
	if want := []int{1000, 5000, 10000}; !slices.Equal(o.sizes, want) {
		t.Errorf("sizes: got %v, want %v", o.sizes, want)
	}
	if len(o.contenders) != len(contenderNames()) || len(o.scenarios) != len(scenarioNames()) {
		t.Errorf("got %d contenders and %d scenarios, want all", len(o.contenders), len(o.scenarios))
	}
}

func TestParseQuickKeepsWhatIsGiven(t *testing.T) {
	o, err := parse([]string{"-quick", "-n=7", "-scenarios=get,cpu"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.size != 7 || len(o.scenarios) != 2 {
		t.Errorf("given: got n=%d and %d scenarios, want 7 and 2", o.size, len(o.scenarios))
	}
	if o.out == defaultOut || o.rounds != 1 || !slices.Equal(o.sizes, []int{1000}) {
		t.Errorf("quick values: got %+v, want others than by default", o)
	}
}

func TestParseErrors(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"size":       {[]string{"-sizes=1000,many"}, `"many" is not a number`},
		"contender":  {[]string{"-contenders=refwatch,nobody"}, "there are refwatch, kubelet"},
		"scenario":   {[]string{"-scenarios=nothing"}, "there are memory, first-get"},
		"rounds":     {[]string{"-rounds=0"}, "0 is too small"},
		"idle":       {[]string{"-idle=0s"}, "-idle and -updating"},
		"an extra":   {[]string{"measure"}, `no command "measure"`},
		"a new flag": {[]string{"-fast"}, "fast"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error: got %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	var text strings.Builder
	if err := command(t.Context(), []string{"-help"}, io.Discard, &text); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error: got %v, want %v", err, flag.ErrHelp)
	}
	for _, want := range []string{"bench table", "-outage-rounds", "-quick"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("help: got no %q, want it in:\n%s", want, text.String())
		}
	}
}
