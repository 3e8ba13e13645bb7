package topology

import "github.com/lnetd/lnetd/internal/lnetd/svg"

// colours are those of the states on a light ground. With a white ground each has a contrast of at least 4.5.
var colours = map[State]string{OK: "#1a7f37", Waiting: "#0969da", Degraded: "#9a6700", Down: "#cf222e"}

// Style is the style sheet of the SVG that WriteSVG writes, for light and dark displays. A page may override the
// background, the class "ground".
var Style = svg.Style(class) + `.topology .box rect { fill: #f6f8fa; stroke-width: 1.5; }
.topology .mark { fill: none; stroke-width: 2.5; stroke-linecap: round; stroke-linejoin: round; }
.topology .edge { fill: none; stroke-width: 1.5; }
.topology .ok rect, .topology .ok .mark { stroke: #1a7f37; }
.topology .waiting rect, .topology .waiting .mark, .topology .edge.waiting { stroke: #0969da; }
.topology .degraded rect, .topology .degraded .mark, .topology .edge.degraded { stroke: #9a6700; }
.topology .down rect, .topology .down .mark, .topology .edge.down { stroke: #cf222e; }
.topology .edge.ok { stroke: #818b98; }
.topology .edge.waiting { stroke-dasharray: 1 5; stroke-linecap: round; }
.topology .edge.degraded { stroke-dasharray: 7 4; }
.topology .edge.down { stroke-dasharray: 2 4; stroke-width: 2; }
.topology .degraded rect, .topology .down rect { stroke-width: 2.5; }
.topology .others rect { stroke: #818b98; stroke-dasharray: 4 3; fill: none; }
@media (prefers-color-scheme: dark) {
.topology .box rect { fill: #151b23; }
.topology .ok rect, .topology .ok .mark { stroke: #3fb950; }
.topology .waiting rect, .topology .waiting .mark, .topology .edge.waiting { stroke: #4493f8; }
.topology .degraded rect, .topology .degraded .mark, .topology .edge.degraded { stroke: #d29922; }
.topology .down rect, .topology .down .mark, .topology .edge.down { stroke: #f85149; }
.topology .edge.ok, .topology .others rect { stroke: #656c76; }
.topology .others rect { fill: none; }
}
`
