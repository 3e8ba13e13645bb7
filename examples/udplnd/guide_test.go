package udplnd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/drivers.md refers to names in the source, such as [`ni.do`][code]. All of them exist.
func TestGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/drivers.md")
	if err != nil {
		t.Fatal(err)
	}
	names := declared(t, "udplnd.go")
	if !strings.Contains(string(page), "\n[code]: ../examples/udplnd/udplnd.go\n") {
		t.Error("docs/drivers.md does not link to the source")
	}
	cited := regexp.MustCompile("\\[`([^`]+)`\\]\\[code\\]").FindAllSubmatch(page, -1)
	for _, c := range cited {
		if name := string(c[1]); !names[name] {
			t.Errorf("docs/drivers.md refers to %s, which udplnd.go does not declare", name)
		}
	}
	if len(cited) < 20 {
		t.Errorf("docs/drivers.md refers to %d names, which is too few for a guide", len(cited))
	}
}

// declared returns the names in a file: functions, types, constants, Type.method and type.field.
func declared(t *testing.T, file string) map[string]bool {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = d.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name + "." + name
			}
			names[name] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				declare(names, s)
			}
		}
	}
	return names
}

func declare(names map[string]bool, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		if fields, ok := s.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, n := range f.Names {
					names[s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}

// The example stays as short as docs/drivers.md says, without blank lines and comments.
func TestLength(t *testing.T) {
	const most = 400
	text, err := os.ReadFile("udplnd.go")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			count++
		}
	}
	if count > most {
		t.Errorf("udplnd.go has %d lines of code, want at most %d", count, most)
	}
}
