package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is the part of a Grafana dashboard that matters here.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type string }
	}
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	Targets     []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, in("deploy", "grafana", "lnetd.json"))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions returns the queries of the dashboard.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			list = append(list, target.Expr)
		}
	}
	return list
}

// The dashboard has what Grafana needs to load it: panels in separate places, each with queries to
// the selected data source, and only defined variables.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("%+v", d)
	}
	known := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		known[v.Name] = true
	}
	ids, taken := map[int]bool{}, map[string]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: there is a panel %d already", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s stands at %+v", p.Title, g)
		}
		for x := range g.W {
			for y := range g.H {
				at := fmt.Sprint(g.X+x, " ", g.Y+y)
				if taken[at] != "" {
					t.Fatalf("%s covers %s", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		switch p.Type {
		case "row":
			continue
		case "timeseries", "stat":
		default:
			t.Errorf("%s is a %q", p.Title, p.Type)
		}
		if p.Title == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || p.Datasource.Type != "prometheus" {
			t.Errorf("%+v", p)
		}
		for _, target := range p.Targets {
			if target.RefID == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("%s: %+v", p.Title, target)
			}
			for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !known[m[1]] {
					t.Errorf("%s: there is no variable %s", p.Title, m[1])
				}
			}
		}
	}
}

// variables replaces variables as Grafana does.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*")

// Every query of the dashboard is valid PromQL.
func TestQueriesOfTheDashboard(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups: [{name: dashboard, rules: [\n")
	for k, e := range expressions(t) {
		text, err := json.Marshal(variables.Replace(e))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "{record: 'q:%d', expr: %s},\n", k, text)
	}
	b.WriteString("]}]\n")
	path := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}
