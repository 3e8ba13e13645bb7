package statuspage

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"slices"
)

// colours is the number of colours of a screenshot. More do not look better, and make a larger file.
const colours = 24

// paletted returns a picture with its most frequent colours, which makes a PNG a quarter of the size.
func paletted(from image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	area := from.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			counts[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	var all []color.RGBA
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range all[:min(len(all), colours)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(area, palette)
	draw.Draw(to, area, from, area.Min, draw.Src)
	return to
}
