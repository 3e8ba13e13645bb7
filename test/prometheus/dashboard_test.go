package prometheus

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// dashboard is the part of a Grafana dashboard that matters here.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Tags          []string
	Links         []link
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type string }
	}
}

type link struct {
	Type string
	Tags []string
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

// dashboards returns the shipped dashboards by the names of their files.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(in("deploy", "grafana", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		var d dashboard
		if err := json.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// expressions returns the queries of all dashboards.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				list = append(list, target.Expr)
			}
		}
	}
	slices.Sort(list)
	return list
}

// There is a dashboard for each subject. Each has its own UID and title, and links to the others.
func TestDashboards(t *testing.T) {
	all := dashboards(t)
	names := slices.Sorted(maps.Keys(all))
	if diff := cmp.Diff([]string{"clients.json", "interfaces.json", "lnetd.json", "peers.json", "routers.json"}, names); diff != "" {
		t.Error(diff)
	}
	uids, titles := map[string]bool{}, map[string]bool{}
	for name, d := range all {
		t.Run(name, func(t *testing.T) { checkDashboard(t, &d) })
		if len(d.Panels) < 10 {
			t.Errorf("%s has only %d panels", name, len(d.Panels))
		}
		if uids[d.UID] || titles[d.Title] {
			t.Errorf("%s: another dashboard has the UID %s or the title %s", name, d.UID, d.Title)
		}
		uids[d.UID], titles[d.Title] = true, true
	}
}

// checkDashboard checks that a dashboard has what Grafana needs to load it: panels in separate places, each with
// queries to the selected data source, and only defined variables.
func checkDashboard(t *testing.T, d *dashboard) {
	t.Helper()
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 {
		t.Errorf("%+v", d)
	}
	linked := slices.ContainsFunc(d.Links, func(l link) bool { return l.Type == "dashboards" && slices.Equal(l.Tags, d.Tags[:1]) })
	if !linked || d.Tags[0] != "lnet" {
		t.Errorf("no links to the dashboards with the tag lnet: %+v, %v", d.Links, d.Tags)
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

// Every query of a dashboard is valid PromQL.
func TestQueriesOfDashboards(t *testing.T) {
	var b strings.Builder
	b.WriteString("groups: [{name: dashboards, rules: [\n")
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
