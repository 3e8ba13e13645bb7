package config

import (
	"strings"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// setting describes a key of a document that sets a field of T. The form describes the values. The
// function read stores a value in a T, or reports a problem.
type setting[T any] struct {
	form form
	read func(*T, place)
}

// formsOf returns only the forms of the settings, by key.
func formsOf[T any](settings map[string]setting[T]) map[string]form {
	forms := map[string]form{}
	for key, s := range settings {
		forms[key] = s.form
	}
	return forms
}

// wholes returns the setting of a key whose value is a whole number from lo to hi. The function set
// stores the number.
func wholes[T any](lo, hi int, set func(*T, int)) setting[T] {
	return setting[T]{scalar{Whole{lo, hi}}, func(t *T, at place) {
		if n, ok := at.number(lo, hi); ok {
			set(t, n)
		}
	}}
}

// ranged returns the setting of a key whose value is a whole number in the range r. The function set
// stores the number.
func ranged[T any](r api.Range, set func(*T, int)) setting[T] {
	return wholes(int(r.Min), int(r.Max), set)
}

// wholeIn returns the kind of an option whose values are the whole numbers in the range r.
func wholeIn(r api.Range) Whole { return Whole{int(r.Min), int(r.Max)} }

// boolSettings returns the setting of a key whose value is a boolean, which set stores.
func boolSettings[T any](set func(*T, bool)) setting[T] {
	return setting[T]{scalar{Boolean{}}, func(t *T, at place) {
		if b, ok := at.boolean(); ok {
			set(t, b)
		}
	}}
}

// texts returns the setting of a key whose value is a text. The function set validates and stores it.
func texts[T any](kind Text, set func(*T, string) error) setting[T] {
	return setting[T]{scalar{kind}, func(t *T, at place) {
		if s, ok := at.textOf(kind); ok {
			if err := set(t, s); err != nil {
				at.problemf("%v", err).remedy(remedyOf(kind, at.key()))
			}
		}
	}}
}

// wordsOf returns the setting of a key whose value is one of several words. Each word stands for the
// element of values with the same index, which set stores.
func wordsOf[T, V any](words Words, values []V, set func(*T, V)) setting[T] {
	return setting[T]{scalar{words}, func(t *T, at place) {
		if k, ok := at.word(words); ok {
			set(t, values[k])
		}
	}}
}

// Kinds of the values of keys, for those that several keys use.
var (
	nidText     = Text{"a NID", "10.0.0.1@tcp"}
	netText     = Text{"a net", "tcp1"}
	patternText = Text{"a pattern of NIDs or nets", "10.0.0.*@tcp"}
	pathText    = Text{"a path", "/run/lnetd/control.sock"}
	deviceText  = Text{"the name of an interface", "eth0"}
	rangeText   = Text{"a range of addresses", `"10.0.*.*"`}
	proxyText   = Text{"the name of a proxy", "mpi"}
	cptText     = Text{"a list of CPU partitions", `"[0,1]"`}
)

// remedyOf tells the operator what to write as the value of a key of the given kind, with an example. If
// key is empty, the example is only the value.
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
