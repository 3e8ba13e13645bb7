package server

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

func (h *handlers) lstAddGroup(ctx context.Context, r *api.LstAddGroup) (report.GroupAddition, *api.Fault) {
	return onConsole(h, "add_group", func(c *console.Console) (report.GroupAddition, error) {
		return c.AddGroup(ctx, console.Key(r.Key), r.Name, r.IDs)
	})
}

func (h *handlers) lstDeleteGroup(ctx context.Context, r *api.LstNamed) (report.Result, *api.Fault) {
	return onConsole(h, "del_group", func(c *console.Console) (report.Result, error) {
		return c.DeleteGroup(ctx, console.Key(r.Key), r.Name)
	})
}

func (h *handlers) lstUpdateGroup(ctx context.Context, r *api.LstUpdateGroup) (report.GroupChange, *api.Fault) {
	given := 0
	for _, b := range []bool{r.Refresh, len(r.Clean) > 0, len(r.Remove) > 0} {
		if b {
			given++
		}
	}
	if given != 1 {
		return report.GroupChange{}, invalidRequest("exactly one of refresh, clean and remove is needed", nil)
	}
	states, err := lstStates(r.Clean)
	if err != nil {
		return report.GroupChange{}, invalidRequest("request body cannot be read", err)
	}
	return onConsole(h, "update_group", func(c *console.Console) (report.GroupChange, error) {
		switch {
		case r.Refresh:
			return c.RefreshGroup(ctx, console.Key(r.Key), r.Name)
		case len(r.Clean) > 0:
			return c.CleanGroup(ctx, console.Key(r.Key), r.Name, states)
		}
		return c.RemoveFromGroup(ctx, console.Key(r.Key), r.Name, r.Remove)
	})
}

// lstStates returns the states of nodes with the given names as a mask.
func lstStates(names []string) (mask report.State, _ error) {
	for _, name := range names {
		var s report.State
		if err := s.UnmarshalText([]byte(name)); err != nil {
			return 0, err
		}
		mask |= s
	}
	return mask, nil
}

func (h *handlers) lstGroups(_ context.Context, r *api.Lst) (api.LstNames, *api.Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (api.LstNames, error) {
		names, err := c.Groups(console.Key(r.Key))
		return api.LstNames{Names: names}, err
	})
}

func (h *handlers) lstGroup(_ context.Context, r *api.LstNamed) (report.GroupInfo, *api.Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (report.GroupInfo, error) { return c.Group(console.Key(r.Key), r.Name) })
}
