package client

import (
	"context"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/control/endpoint"
	"github.com/lnetd/lnetd/selftest/report"
)

// LstAddGroup creates a group and invites its nodes to the session.
func (c *Client) LstAddGroup(ctx context.Context, r api.LstAddGroup) (report.GroupAddition, error) {
	return call(ctx, c, endpoint.LstAddGroup, r)
}

// LstDeleteGroup deletes a group.
func (c *Client) LstDeleteGroup(ctx context.Context, r api.LstNamed) (report.Result, error) {
	return call(ctx, c, endpoint.LstDeleteGroup, r)
}

// LstUpdateGroup changes a group.
func (c *Client) LstUpdateGroup(ctx context.Context, r api.LstUpdateGroup) (report.GroupChange, error) {
	return call(ctx, c, endpoint.LstUpdateGroup, r)
}

// LstGroups returns the names of the groups.
func (c *Client) LstGroups(ctx context.Context, key api.LstKey) ([]string, error) {
	r, err := call(ctx, c, endpoint.LstGroups, api.Lst{Key: key})
	return r.Names, err
}

// LstGroup returns the description of a group.
func (c *Client) LstGroup(ctx context.Context, r api.LstNamed) (report.GroupInfo, error) {
	return call(ctx, c, endpoint.LstGroup, r)
}
