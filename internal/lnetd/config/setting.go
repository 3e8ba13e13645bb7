package config

import (
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// setting is a key that sets a field of T. It holds the form of the value and the function that
// stores it.
type setting[T any] struct {
	form form
	read func(*T, place)
}

// formsOf returns the forms of settings by key.
func formsOf[T any](settings map[string]setting[T]) map[string]form {
	forms := map[string]form{}
	for key, s := range settings {
		forms[key] = s.form
	}
	return forms
}

// wholes returns the setting of a whole number from lo to hi.
func wholes[T any](lo, hi int, set func(*T, int)) setting[T] {
	return setting[T]{scalar{Whole{lo, hi}}, func(t *T, at place) {
		if n, ok := at.number(lo, hi); ok {
			set(t, n)
		}
	}}
}

// ranged returns the setting of a whole number in a range that commands use too.
func ranged[T any](r api.Range, set func(*T, int)) setting[T] {
	return wholes(int(r.Min), int(r.Max), set)
}

// wholeIn returns the kind of the numbers in a range.
func wholeIn(r api.Range) Whole { return Whole{int(r.Min), int(r.Max)} }

// boolSettings returns the setting of a boolean.
func boolSettings[T any](set func(*T, bool)) setting[T] {
	return setting[T]{scalar{Boolean{}}, func(t *T, at place) {
		if b, ok := at.boolean(); ok {
			set(t, b)
		}
	}}
}

// texts returns the setting of a text that set validates.
func texts[T any](kind Text, set func(*T, string) error) setting[T] {
	return setting[T]{scalar{kind}, func(t *T, at place) {
		if s, ok := at.textOf(kind); ok {
			if err := set(t, s); err != nil {
				at.problemf("%v", err).remedy(remedyOf(kind, at.key()))
			}
		}
	}}
}

// wordsOf returns the setting of one of several words, each of which stands for a value.
func wordsOf[T, V any](words Words, values []V, set func(*T, V)) setting[T] {
	return setting[T]{scalar{words}, func(t *T, at place) {
		if k, ok := at.word(words); ok {
			set(t, values[k])
		}
	}}
}

// Kinds of text that several keys have.
var (
	nidText     = Text{"a NID", "10.0.0.1@tcp"}
	netText     = Text{"a net", "tcp1"}
	patternText = Text{"a pattern of NIDs or nets", "10.0.0.*@tcp"}
	pathText    = Text{"a path", "/run/lnetd/control.sock"}
	deviceText  = Text{"the name of an interface", "eth0"}
	rangeText   = Text{"a range of addresses", `"10.0.*.*"`}
	cptText     = Text{"a list of CPU partitions", `"[0,1]"`}
)

// remedyOf returns advice on what to write as the value of a key. The key may be empty.
func remedyOf(kind Kind, key string) string {
	what, example := kind.right()
	switch {
	case example == "":
		return "write " + what
	case key != "":
		example = key + ": " + example
	}
	if strings.Contains(example, `"`) {
		return "write " + what + ", such as " + example
	}
	return "write " + what + `, such as "` + example + `"`
}
