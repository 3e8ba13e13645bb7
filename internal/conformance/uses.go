package conformance

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// uses knows which tests of a package's test files use which of their
// declarations, directly or through others.
type uses struct {
	tests []testFunc
	names map[ast.Decl][]string // what a declaration declares; a method: its receiver's type
	used  map[string][]string   // by name: names of the package that its declaration uses
}

type testFunc struct {
	Test
	decl ast.Decl
}

func usesOf(files *token.FileSet, p []*ast.File) *uses {
	u := &uses{names: map[ast.Decl][]string{}, used: map[string][]string{}}
	// Imports do not matter to what stands in these files. Without them there
	// are errors, which do not matter either.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := c.Check(p[0].Name.Name, files, p, info)
	for _, f := range p {
		for _, d := range f.Decls {
			names := declared(d)
			u.names[d] = names
			if fn, ok := d.(*ast.FuncDecl); ok && runs(fn, f.Comments) {
				u.tests = append(u.tests, testFunc{Test{files.Position(d.Pos()).Filename, fn.Name.Name}, d})
			}
			ast.Inspect(d, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if o := info.Uses[id]; o != nil && o.Parent() == pkg.Scope() {
					for _, name := range names {
						u.used[name] = append(u.used[name], id.Name)
					}
				}
				return true
			})
		}
	}
	return u
}

// noImports makes the type checker do without other packages.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// declared lists the names that a declaration gives, with the receiver's type
// for a method: who uses the type may call it.
func declared(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		var names []string
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && names == nil {
				names = []string{id.Name}
			}
			return true
		})
		return names
	case *ast.GenDecl:
		var names []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			}
		}
		return names
	}
	return nil
}

var outputForm = regexp.MustCompile(`(?i)^//[[:space:]]*(unordered )?output:`)

// runs tells whether go test runs a function. It runs an example only if it
// says what the output must be.
func runs(fn *ast.FuncDecl, comments []*ast.CommentGroup) bool {
	if fn.Recv != nil || fn.Body == nil || fn.Name.Name == "TestMain" {
		return false
	}
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(fn.Name.Name, prefix)
		if !ok {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(rest); rest != "" && unicode.IsLower(r) {
			return false
		}
		return prefix != "Example" || slices.ContainsFunc(comments, func(g *ast.CommentGroup) bool {
			return fn.Body.Pos() < g.Pos() && g.End() < fn.Body.End() && outputForm.MatchString(g.List[0].Text)
		})
	}
	return false
}

// testsAround returns the tests that a comment counts for: the one that it
// stands in, or those that use the declaration that it stands in.
func (u *uses) testsAround(f *ast.File, c *ast.Comment) []Test {
	for _, d := range f.Decls {
		from := d.Pos()
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				from = d.Doc.Pos()
			}
		}
		if c.Pos() < from || c.Pos() > d.End() {
			continue
		}
		var tests []Test
		for _, t := range u.tests {
			if t.decl == d {
				return []Test{t.Test}
			}
			if u.reaches(t.Name, u.names[d]) {
				tests = append(tests, t.Test)
			}
		}
		return tests
	}
	return nil
}

// reaches tells whether the declaration of name uses one of targets.
func (u *uses) reaches(name string, targets []string) bool {
	seen := map[string]bool{name: true}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		if slices.Contains(targets, queue[0]) {
			return true
		}
		for _, next := range u.used[queue[0]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return false
}
