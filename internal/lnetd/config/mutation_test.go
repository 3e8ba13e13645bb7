package config_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// mutation corrupts a line of a text.
type mutation struct {
	name  string
	spoil func(r *rand.Rand, lines []string, k int)
}

var (
	keyOf    = regexp.MustCompile(`^(\s*(?:- +)?)([A-Za-z][A-Za-z0-9_() -]*)(:.*)$`)
	numberOf = regexp.MustCompile(`: \d+$`)
)

var mutations = []mutation{
	{"a tab for the indentation", func(_ *rand.Rand, lines []string, k int) {
		lines[k] = "\t" + strings.TrimLeft(lines[k], " ")
	}},
	{"one blank more", func(_ *rand.Rand, lines []string, k int) { lines[k] = " " + lines[k] }},
	{"one blank less", func(_ *rand.Rand, lines []string, k int) { lines[k] = strings.TrimPrefix(lines[k], " ") }},
	{"no colon", func(_ *rand.Rand, lines []string, k int) { lines[k] = strings.Replace(lines[k], ":", "", 1) }},
	{"the space after the colon is missing", func(_ *rand.Rand, lines []string, k int) {
		lines[k] = strings.Replace(lines[k], ": ", ":", 1)
	}},
	{"a letter of the key dropped", onKey(func(r *rand.Rand, key string) string {
		at := r.IntN(len(key))
		return key[:at] + key[at+1:]
	})},
	{"two letters of the key swapped", onKey(func(r *rand.Rand, key string) string {
		if len(key) < 2 {
			return key
		}
		at := r.IntN(len(key) - 1)
		return key[:at] + key[at+1:at+2] + key[at:at+1] + key[at+2:]
	})},
	{"an unknown key", onKey(func(*rand.Rand, string) string { return "frobnicate" })},
	{"a number out of range", func(_ *rand.Rand, lines []string, k int) {
		lines[k] = numberOf.ReplaceAllString(lines[k], ": 99999999999")
	}},
	{"a word for a number", func(_ *rand.Rand, lines []string, k int) {
		lines[k] = numberOf.ReplaceAllString(lines[k], ": many")
	}},
	{"a line twice", func(_ *rand.Rand, lines []string, k int) { lines[k] += "\n" + lines[k] }},
	{"an open bracket", func(_ *rand.Rand, lines []string, k int) { lines[k] += " [" }},
	{"an open quote", func(_ *rand.Rand, lines []string, k int) { lines[k] = strings.Replace(lines[k], ": ", `: "`, 1) }},
	{"a list for a mapping", func(_ *rand.Rand, lines []string, k int) {
		at := len(lines[k]) - len(strings.TrimLeft(lines[k], " "))
		lines[k] = lines[k][:at] + "- " + lines[k][at:]
	}},
	{"cut off", func(r *rand.Rand, lines []string, k int) {
		lines[k] = lines[k][:r.IntN(len(lines[k])+1)]
		clear(lines[k+1:])
	}},
}

// onKey corrupts the key of a line.
func onKey(spoil func(r *rand.Rand, key string) string) func(*rand.Rand, []string, int) {
	return func(r *rand.Rand, lines []string, k int) {
		if m := keyOf.FindStringSubmatch(lines[k]); m != nil {
			lines[k] = m[1] + spoil(r, m[2]) + m[3]
		}
	}
}

// Given 1,000 corruptions of real files, nothing panics. A rejected file gives a line, a key or
// the reason, and a remedy. An accepted file means the same as before, or gives a warning, or the
// corruption leaves a file that an operator may have intended.
//
// lnetctl 7 (2)
func TestMutations(t *testing.T) {
	options := daemon.AllDrivers().Options()
	files := captures(t)
	files["reference"] = config.Reference(options)
	names := slices.Sorted(maps.Keys(files))
	meant := map[string]config.Config{}
	for _, name := range names {
		c, err := config.Parse("f", files[name], options)
		if err != nil || len(c.Warnings) > 0 {
			t.Fatal(name, err, c.Warnings)
		}
		meant[name] = placeless(c)
	}
	refused, same, other := 0, 0, map[string]int{}
	tries := testenv.Fewer(1000)
	for k := range tries {
		r := rand.New(rand.NewPCG(14, uint64(k)))
		name := names[r.IntN(len(names))]
		m := mutations[k%len(mutations)]
		lines := strings.Split(strings.TrimRight(string(files[name]), "\n"), "\n")
		at := r.IntN(len(lines))
		was := lines[at]
		m.spoil(r, lines, at)
		text := strings.Join(lines, "\n") + "\n"
		c, err := config.Parse("f", []byte(text), options)
		what := fmt.Sprintf("%s line %d: %s: %q", name, at+1, m.name, was)
		var problems config.Problems
		switch {
		case errors.As(err, &problems):
			refused++
			for _, p := range problems {
				if p.Line == 0 || p.Text == "" || p.Remedy == "" && !p.Warning {
					t.Errorf("%s: %v", what, p)
				}
			}
		case err != nil:
			t.Errorf("%s: %v", what, err)
		default:
			warned := len(c.Warnings) > 0
			c.Warnings = nil
			if warned || cmp.Equal(meant[name], placeless(c), alike) {
				same++
				break
			}
			other[m.name]++
			if !mayDiffer[m.name] {
				t.Errorf("%s: means something else:\n%s", what, cmp.Diff(meant[name], c, alike))
			}
		}
	}
	t.Logf("%d refused, %d the same or warned of, otherwise %v", refused, same, other)
	if 2*refused < tries {
		t.Errorf("%d refused", refused)
	}
}

// mayDiffer holds the mutations that may leave a file that an operator may have intended.
var mayDiffer = map[string]bool{
	"cut off": true, // it ends earlier
}
