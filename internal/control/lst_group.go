package control

import (
	"context"

	"github.com/lnetd/lnetd/selftest/console"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstAddGroup is the body of POST /v1/lst/add_group.
type LstAddGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// IDs are lists of NIDs with ranges, as lst takes them.
	IDs []string `json:"ids"`
}

// LstUpdateGroup is the body of POST /v1/lst/update_group: exactly one of Refresh,
// Clean and Remove.
type LstUpdateGroup struct {
	Key  LstKey `json:"key"`
	Name string `json:"name"`
	// Refresh asks inactive nodes again to join the session.
	Refresh bool `json:"refresh,omitempty"`
	// Clean drops the nodes in any of these states: "busy", "down", "unknown".
	Clean []string `json:"clean,omitempty"`
	// Remove drops the nodes of these lists.
	Remove []string `json:"remove,omitempty"`
}

// LstAddGroup makes a group and asks its nodes to join the session.
func (c *Client) LstAddGroup(ctx context.Context, r LstAddGroup) (report.GroupAddition, error) {
	return lstCall[report.GroupAddition](ctx, c, "add_group", r)
}

// LstDeleteGroup deletes a group.
func (c *Client) LstDeleteGroup(ctx context.Context, r LstNamed) (report.Result, error) {
	return lstCall[report.Result](ctx, c, "del_group", r)
}

// LstUpdateGroup changes a group.
func (c *Client) LstUpdateGroup(ctx context.Context, r LstUpdateGroup) (report.GroupChange, error) {
	return lstCall[report.GroupChange](ctx, c, "update_group", r)
}

// LstGroups lists the groups.
func (c *Client) LstGroups(ctx context.Context, key LstKey) ([]string, error) {
	r, err := lstCall[LstNames](ctx, c, "list_groups", Lst{Key: key})
	return r.Names, err
}

// LstGroup describes a group.
func (c *Client) LstGroup(ctx context.Context, r LstNamed) (report.GroupInfo, error) {
	return lstCall[report.GroupInfo](ctx, c, "list_group", r)
}

func (h *handlers) lstAddGroup(ctx context.Context, r *LstAddGroup) (report.GroupAddition, *Fault) {
	return onConsole(h, "add_group", func(c *console.Console) (report.GroupAddition, error) {
		return c.AddGroup(ctx, console.Key(r.Key), r.Name, r.IDs)
	})
}

func (h *handlers) lstDeleteGroup(ctx context.Context, r *LstNamed) (report.Result, *Fault) {
	return onConsole(h, "del_group", func(c *console.Console) (report.Result, error) {
		return c.DeleteGroup(ctx, console.Key(r.Key), r.Name)
	})
}

func (h *handlers) lstUpdateGroup(ctx context.Context, r *LstUpdateGroup) (report.GroupChange, *Fault) {
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

// lstStates are the states of these names, as a mask.
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

func (h *handlers) lstGroups(_ context.Context, r *Lst) (LstNames, *Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (LstNames, error) {
		names, err := c.Groups(console.Key(r.Key))
		return LstNames{Names: names}, err
	})
}

func (h *handlers) lstGroup(_ context.Context, r *LstNamed) (report.GroupInfo, *Fault) {
	return onConsole(h, "list_group", func(c *console.Console) (report.GroupInfo, error) { return c.Group(console.Key(r.Key), r.Name) })
}
