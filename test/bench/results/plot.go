// SPDX-License-Identifier: Apache-2.0

package results

import (
	"errors"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files

	"github.com/refwatch/refwatch/test/bench/contender"
)

// colours are those of the first contender.Kinds. The others are in no plot. They differ in lightness, too.
var colours = []color.RGBA{
	{0x00, 0x5a, 0xb5, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x55, 0x55, 0x55, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

// picture is one plot: bars of figures, or the recovery from an outage.
type picture struct {
	file, title, unit string
	scale             float64 // of the figures, to the unit
	figures           []string
	outage            string
}

var pictures = []picture{
	{"memory.svg", "Heap and stacks per object", "KB per object", 1e-3, []string{"memory-bytes-per-object-1000", "memory-bytes-per-object-5000"}, ""},
	{
		"sync.svg", "Register and sync all, quiet and busy", "seconds", 1,
		[]string{"sync-seconds-1000", "sync-seconds-5000", "sync-busy-seconds-5000"}, "",
	},
	{"first-get.svg", "Register one Secret and get it", "ms", 1, []string{"first-get-p50-ms", "first-get-p99-ms"}, ""},
	{"update.svg", "From an update until Get returns it", "ms", 1, []string{"update-to-get-p50-ms", "update-to-get-p99-ms"}, ""},
	{"outage-2s.svg", "Streams open after an outage of 2 s of the API server", "open streams", 1, nil, "outage-2s"},
	{"outage-60s.svg", "Streams open after an outage of 60 s of the API server", "open streams", 1, nil, "outage-60s"},
}

// Plot writes all plots for which there are results, as SVG.
func (r *Results) Plot(dir string) error {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	err := os.MkdirAll(dir, 0o755)
	for _, picture := range r.plots() {
		p := plot.New()
		p.Title.Text, p.Y.Label.Text, p.Y.Min = picture.title, picture.unit, 0
		p.BackgroundColor = color.White // readable on a dark page, too
		p.Add(plotter.NewGrid())
		p.Title.Padding, p.Legend.Top, p.Legend.Padding = vg.Points(10), true, vg.Points(3)
		p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(ticks), plot.TickerFunc(ticks)
		if picture.outage != "" {
			err = errors.Join(err, drawRecoveries(p, r.Recoveries[picture.outage]))
		} else {
			err = errors.Join(err, r.drawBars(p, picture))
		}
		p.Y.Min = 0
		err = errors.Join(err, p.Save(22*vg.Centimeter, 10*vg.Centimeter, filepath.Join(dir, picture.file)))
	}
	return err
}

// ticks are the default ones, labelled 2500 and not 2500.00.
func ticks(low, high float64) []plot.Tick {
	all := plot.DefaultTicks{}.Ticks(low, high)
	for i := range all {
		all[i].Label, _, _ = strings.Cut(all[i].Label, ".00")
	}
	return all
}

// plots returns the pictures for which there are results.
func (r *Results) plots() (found []picture) {
	for _, picture := range pictures {
		figures := picture.figures
		picture.figures = nil
		for _, figure := range figures {
			if _, ok := r.Figures[figure]; ok {
				picture.figures = append(picture.figures, figure)
			}
		}
		if len(picture.figures) > 0 || len(r.Recoveries[picture.outage]) > 0 {
			found = append(found, picture)
		}
	}
	return found
}

// drawBars draws a group of bars for each figure, with a bar for each contender. The legend stands to their right.
func (r *Results) drawBars(p *plot.Plot, picture picture) error {
	const width = 13 // points
	for i, kind := range contender.Kinds[:len(colours)] {
		values := make(plotter.Values, len(picture.figures))
		for at, figure := range picture.figures {
			if value := r.Median(figure, kind.Name); !math.IsNaN(value) {
				values[at] = value * picture.scale
			}
		}
		bars, err := plotter.NewBarChart(values, vg.Points(width))
		if err != nil {
			return err
		}
		bars.Color, bars.LineStyle.Width = colours[i], 0
		bars.Offset = vg.Points((float64(i) - float64(len(colours)-1)/2) * (width + 1))
		p.Add(bars)
		p.Legend.Add(kind.Name, bars)
	}
	p.NominalX(picture.figures...)
	p.X.Min, p.X.Max = -0.5, float64(len(picture.figures))
	return nil
}

// drawRecoveries draws a line for each contender. It stays level while other contenders still open streams.
func drawRecoveries(p *plot.Plot, recoveries map[string]Recovery) error {
	p.X.Label.Text, p.Legend.Top = "seconds since the server was ready", false
	last := 0.0
	for _, recovery := range recoveries {
		last = max(last, recovery.Seconds)
	}
	for i, kind := range contender.Kinds[:len(colours)] {
		recovery, ok := recoveries[kind.Name]
		if !ok {
			continue
		}
		var points plotter.XYs
		for at, open := range recovery.Open {
			points = append(points, plotter.XY{X: recovery.at(at), Y: float64(open)})
		}
		points = append(points, plotter.XY{X: last, Y: points[len(points)-1].Y})
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.Color, line.Width = colours[i], vg.Points(1.8)
		p.Add(line)
		p.Legend.Add(kind.Name, line)
	}
	return nil
}
