package message

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The text of any received NID is unique and printable.
func TestTextOfNID4(t *testing.T) {
	for n, want := range map[NID4]string{
		0x000200000a000001: "10.0.0.1@tcp", 0x000200030a000001: "10.0.0.1@tcp3", 0x000500000a000001: "10.0.0.1@o2ib",
		AnyNID4: "any", 0: "0x0", 0x0001000000000007: "7@<1:0>", AnyNID4 - 1: "0xfffffffffffffffe",
	} {
		if got := n.String(); got != want {
			t.Errorf("%#x: %s, want %s", uint64(n), got, want)
		}
	}
	for _, text := range []string{`""`, `"0x"`, `"0x10000000000000000"`, `"x@tcp"`, `"fe80::1@tcp"`, `7`} {
		if err := json.Unmarshal([]byte(text), new(NID4)); err == nil {
			t.Errorf("%s is no NID", text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := NID4(rapid.Uint64Range(0, 12).Draw(t, "type")<<48 | rapid.Uint64Range(0, 1<<48-1).Draw(t, "rest"))
		if rapid.Bool().Draw(t, "any type") {
			n = NID4(rapid.Uint64().Draw(t, "NID"))
		}
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var read NID4
		if err := json.Unmarshal(b, &read); err != nil || read != n || strings.ContainsAny(n.String(), "\x1b\n ") {
			t.Errorf("%#x as %s, read %#x: %v", uint64(n), b, uint64(read), err)
		}
	})
}
