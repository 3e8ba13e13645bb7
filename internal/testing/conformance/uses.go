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

// uses records the tests in the test files of a package, and which declarations use which names, to find
// the tests that use a declaration directly or through others.
type uses struct {
	tests []testFunc
	names map[ast.Decl][]string // the names that each declaration declares; for a method, the receiver's type
	// users lists, by name, the names of the declarations that use it. The name of a declaration in another
	// package is preceded by the path of that package.
	users map[string][]string
}

type testFunc struct {
	Test
	decl ast.Decl
}

func usesOf(files *token.FileSet, p []*ast.File) *uses {
	u := &uses{names: map[ast.Decl][]string{}, users: map[string][]string{}}
	// Names within these files can be resolved without the imported packages. The type checker reports
	// errors because the imports are missing; they are ignored.
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := c.Check(p[0].Name.Name, files, p, info)
	for _, f := range p {
		for _, d := range f.Decls {
			names := declared(d)
			u.names[d] = names
			if fn, ok := d.(*ast.FuncDecl); ok && isTest(fn, f.Comments) {
				u.tests = append(u.tests, testFunc{Test{files.Position(d.Pos()).Filename, fn.Name.Name}, d})
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if used := usedBy(n, info, pkg); used != "" {
					u.users[used] = append(u.users[used], names...)
				}
				return true
			})
		}
	}
	return u
}

// usedBy returns the name that node n itself uses, not its children: a name of package pkg, or of
// another package, preceded by that package's path. It returns "" if n uses no such name.
func usedBy(n ast.Node, info *types.Info, pkg *types.Package) string {
	switch n := n.(type) {
	case *ast.Ident:
		if o := info.Uses[n]; o != nil && o.Parent() == pkg.Scope() {
			return n.Name
		}
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if other, ok := info.Uses[x].(*types.PkgName); ok {
				return other.Imported().Path() + "." + n.Sel.Name
			}
		}
	}
	return ""
}

// noImports is an importer that returns an error for each package.
type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not looked at") }

// declared returns the names that a declaration declares. For a method it returns the receiver's type,
// because a declaration that uses the type may call the method.
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

// isTest reports whether go test runs a function. It runs an example only if a comment in the example
// states its output.
func isTest(fn *ast.FuncDecl, comments []*ast.CommentGroup) bool {
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

// declarationAround returns the declaration that contains a comment, or whose doc comment it belongs to,
// or nil.
func declarationAround(f *ast.File, c *ast.Comment) ast.Decl {
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
		if c.Pos() >= from && c.Pos() <= d.End() {
			return d
		}
	}
	return nil
}

// testsAround returns the tests that a comment belongs to: the test that contains it, or all tests that
// use the declaration that contains it.
func (u *uses) testsAround(f *ast.File, c *ast.Comment) []Test {
	d := declarationAround(f, c)
	if d == nil {
		return nil
	}
	for _, t := range u.tests {
		if t.decl == d {
			return []Test{t.Test}
		}
	}
	return u.testsOf(u.names[d])
}

// testsOf returns the tests that use one of the names, directly or through others.
func (u *uses) testsOf(names []string) (tests []Test) {
	reach := u.reaching(names)
	for _, t := range u.tests {
		if reach[t.Name] {
			tests = append(tests, t.Test)
		}
	}
	return tests
}

// exportedAround returns the exported names of this package that use the declaration around a comment,
// directly or through others. Each name is preceded by the package's path.
func (u *uses) exportedAround(f *ast.File, c *ast.Comment, packagePath string) (names []string) {
	d := declarationAround(f, c)
	if d == nil {
		return nil
	}
	reach := u.reaching(u.names[d])
	for _, declared := range u.names {
		for _, name := range declared {
			if ast.IsExported(name) && reach[name] {
				names = append(names, packagePath+"."+name)
			}
		}
	}
	return names
}

// reaching returns the set of targets and of all names whose declarations use one of them, directly or
// through others.
func (u *uses) reaching(targets []string) map[string]bool {
	reach := map[string]bool{}
	for queue := slices.Clone(targets); len(queue) > 0; queue = queue[1:] {
		if !reach[queue[0]] {
			reach[queue[0]] = true
			queue = append(queue, u.users[queue[0]]...)
		}
	}
	return reach
}
