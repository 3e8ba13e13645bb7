package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lnetctl 5
func TestLayouts(t *testing.T) {
	doc := mapping{
		{"top", sequence{
			{{"a", number(1)}, {"b", mapping{{"c", nil}, {"d", quoted("[0]")}}}},
			{{"list", sequence{{{"x", text("1.2.3.4@tcp")}}, {{"x", text("fd77::11@tcp")}}}}},
		}},
		{"last", boolean(true)},
	}
	tests := []struct {
		name string
		in   layout
		want string
	}{
		{"wide", wide, `top:
-     a: 1
      b:
            c:
            d: "[0]"
-     list:
      -     x: 1.2.3.4@tcp
      -     x: fd77::11@tcp
last: true
`},
		{"narrow", narrow, `top:
- a: 1
  b:
    c:
    d: "[0]"
- list:
  - x: 1.2.3.4@tcp
  - x: fd77::11@tcp
last: true
`},
		{"classic", classic, `top:
    - a: 1
      b:
          c:
          d: "[0]"
    - list:
          - x: 1.2.3.4@tcp
          - x: fd77::11@tcp
last: true
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := tt.in.write(&b, doc); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScalars(t *testing.T) {
	tests := []struct{ in, want string }{
		{"up", "up"},
		{"eth0:1", "eth0:1"},
		{"-1", "-1"},
		{"::1@tcp", "::1@tcp"},
		{"", "! ''"},
		{"a: b", "! 'a: b'"},
		{"it's: so", "! 'it''s: so'"},
		{"a #b", "! 'a #b'"},
		{"[0]", "! '[0]'"},
		{"- x", "! '- x'"},
		{"a\nb", `! "a\nb"`},
		{"tab\t\"q\" \\", `! "tab\t\"q\" \\"`},
		{"\x01", `! "\x01"`},
	}
	for _, tt := range tests {
		if got := text(tt.in); string(got) != tt.want {
			t.Errorf("text(%q) = %s, want %s", tt.in, got, tt.want)
		}
	}
}

// lnetctl 2 (1)-(2)
func TestErrorDocuments(t *testing.T) {
	var b bytes.Buffer
	newErrorDocument(&b, "show", errorEntry("net", nil, -100, tagged("Unspecific failure")))
	oldErrorDocument(&b, "add", "response_tracking", -22, "Valid values are: 0, 1, 2, or 3")
	want := `---
show:
-     net:
      errno: -100
      descr: ! "Unspecific failure"
...
add:
    - response_tracking:
          errno: -22
          descr: "Valid values are: 0, 1, 2, or 3"
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
