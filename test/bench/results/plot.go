// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// colours are those of the contenders, on white: they differ in lightness too.
var colours = []struct {
	contender string
	colour    color.RGBA
}{
	{Refwatch, color.RGBA{0x00, 0x5a, 0xb5, 0xff}},
	{Kubelet, color.RGBA{0xd5, 0x5e, 0x00, 0xff}},
	{Informer, color.RGBA{0xcc, 0x79, 0xa7, 0xff}},
	{Floor, color.RGBA{0x55, 0x55, 0x55, 0xff}},
	{"refwatch-clientgo", color.RGBA{0x56, 0xb4, 0xe9, 0xff}},
	{"controller-runtime", color.RGBA{0x00, 0x9e, 0x73, 0xff}},
}

// picture is one plot.
type picture struct {
	file, title string
	draw        func(*plot.Plot) error
}

// plots are those that there are figures for.
func (r *Results) plots() []picture {
	var found []picture
	for _, line := range []struct{ file, title, figure, unit string }{
		{"memory.svg", "Heap and stacks per object", "memory-bytes-per-object", "KB per object"},
		{"sync.svg", "Register and sync all", "sync-seconds", "seconds"},
	} {
		if sizes := r.sizesOf(line.figure); len(sizes) > 0 {
			scale := 1.0
			if strings.HasPrefix(line.unit, "KB") {
				scale = 1e-3
			}
			found = append(found, picture{line.file, line.title, func(p *plot.Plot) error {
				p.X.Label.Text, p.Y.Label.Text = "objects", line.unit
				return r.drawBySize(p, line.figure, sizes, scale)
			}})
		}
	}
	size, _ := r.sizes()
	bars := []struct {
		file, title, unit string
		figures           []string
	}{
		{"goroutines.svg", "Goroutines per object", "goroutines per object", []string{fmt.Sprint("goroutines-per-object-", size)}},
		{"first-get.svg", "Register one secret and get it", "ms", []string{"first-get-p50-ms", "first-get-p99-ms"}},
		{"update.svg", "From an update being sent until Get tells", "ms", []string{"update-to-get-p50-ms", "update-to-get-p99-ms"}},
		{"cpu.svg", "CPU of the client", "ms", []string{"cpu-idle-ms-per-minute", "cpu-updates-ms-per-1000"}},
	}
	for _, bar := range bars {
		if r.Figures[bar.figures[0]] != nil {
			found = append(found, picture{bar.file, bar.title, func(p *plot.Plot) error {
				p.Y.Label.Text = bar.unit
				return r.drawBars(p, bar.figures)
			}})
		}
	}
	for _, away := range []string{"2", "60"} {
		outage, title := "outage-"+away+"s", "Streams open after an outage of "+away+" s of the API server"
		if len(r.Recoveries[outage]) > 0 {
			found = append(found, picture{outage + ".svg", title, func(p *plot.Plot) error {
				p.X.Label.Text, p.Y.Label.Text = "seconds since the server was ready", "open streams"
				return r.drawRecoveries(p, outage)
			}})
		}
	}
	return found
}

// sizesOf are the sizes that a figure was measured at, in order.
func (r *Results) sizesOf(figure string) []int {
	var sizes []int
	for _, name := range r.Names("") {
		if prefix, size := splitSize(name); prefix == figure && size > 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// drawBySize draws a line for each contender, over the sizes.
func (r *Results) drawBySize(p *plot.Plot, figure string, sizes []int, scale float64) error {
	p.X.Min = 0
	for _, c := range colours {
		var points plotter.XYs
		for _, size := range sizes {
			if value := r.Median(fmt.Sprint(figure, "-", size), c.contender); !math.IsNaN(value) {
				points = append(points, plotter.XY{X: float64(size), Y: value * scale})
			}
		}
		if err := addLine(p, c.contender, c.colour, points, true); err != nil {
			return err
		}
	}
	return nil
}

func addLine(p *plot.Plot, name string, colour color.Color, points plotter.XYs, dots bool) error {
	if len(points) == 0 {
		return nil
	}
	line, scatter, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = colour, vg.Points(1.8)
	scatter.Color, scatter.Radius = colour, vg.Points(2.5)
	p.Add(line)
	if dots {
		p.Add(scatter)
	}
	p.Legend.Add(name, line)
	return nil
}

// drawBars draws a bar for each contender, in a group for each figure.
func (r *Results) drawBars(p *plot.Plot, figures []string) error {
	const width = 13 // points
	present := colours[:0:0]
	for _, c := range colours {
		if !math.IsNaN(r.Median(figures[0], c.contender)) {
			present = append(present, c)
		}
	}
	for i, c := range present {
		values := make(plotter.Values, len(figures))
		for at, figure := range figures {
			if value := r.Median(figure, c.contender); !math.IsNaN(value) {
				values[at] = value
			}
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width = c.colour, 0
		bars.Offset = vg.Points((float64(i) - float64(len(present)-1)/2) * (width + 1))
		p.Add(bars)
		p.Legend.Add(c.contender, bars)
	}
	p.NominalX(figures...)
	p.X.Min, p.X.Max = -0.5, float64(len(figures))-0.5
	return nil
}

// drawRecoveries draws how the streams come back, in the round with the median duration.
func (r *Results) drawRecoveries(p *plot.Plot, outage string) error {
	shown, last := map[string]Recovery{}, 0.0
	for contender, rounds := range r.Recoveries[outage] {
		if recovery, ok := medianRecovery(rounds); ok && len(recovery.Seconds) > 0 {
			shown[contender] = recovery
			last = max(last, recovery.Seconds[len(recovery.Seconds)-1])
		}
	}
	for _, c := range colours {
		var points plotter.XYs
		recovery := shown[c.contender]
		for i, at := range recovery.Seconds {
			if at >= -1 { // just before the server is ready
				points = append(points, plotter.XY{X: at, Y: float64(recovery.Open[i])})
			}
		}
		if len(points) > 0 { // they stay open while others are still being opened
			points = append(points, plotter.XY{X: last, Y: points[len(points)-1].Y})
		}
		if err := addLine(p, c.contender, c.colour, points, false); err != nil {
			return err
		}
	}
	return nil
}
