package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// Each code of the control interface has a remedy, and there are no remedies for other codes.
func TestEveryCodeHasARemedy(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes[Code(text)] = true
		}
		return true
	})
	if len(codes) < 40 {
		t.Errorf("%d codes only", len(codes))
	}
	for code := range codes {
		if remedies[code] == "" {
			t.Errorf("%s has no remedy", code)
		}
	}
	for code := range remedies {
		if !codes[code] {
			t.Errorf("%s is no code", code)
		}
	}
}

// The remedy for a code is that of an error that has none.
func TestWithRemedy(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    Fault
		want string
	}{
		{"its own", Fault{Code: CodeBusy, Remedy: "wait"}, "wait"},
		{"that of the code", Fault{Code: CodeBusy}, remedies[CodeBusy]},
		{"of a newer lnetd", Fault{Code: "unheard-of"}, ""},
		{"problems", Fault{Code: CodeConfigInvalid, Problems: []Problem{{Text: "t", Remedy: "r"}}}, ""},
	} {
		before := tt.f.Remedy
		if got := tt.f.WithRemedy(); got.Remedy != tt.want || tt.f.Remedy != before {
			t.Errorf("%s: %q, want %q", tt.name, got.Remedy, tt.want)
		}
	}
}
