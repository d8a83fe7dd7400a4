// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	plotWidth  = 22 * vg.Centimeter
	plotHeight = 10 * vg.Centimeter
	// legendWidth is the part of plotWidth beside the plot itself.
	legendWidth = 5.5 * vg.Centimeter
	margin      = 0.4 * vg.Centimeter
)

// Plot writes all plots there are figures for, as SVG.
func (r *Results) Plot(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing plots: %w", err)
	}
	for _, picture := range r.plots() {
		if err := picture.write(filepath.Join(dir, picture.file)); err != nil {
			return fmt.Errorf("drawing %s: %w", picture.file, err)
		}
	}
	return nil
}

// write draws the picture on white, so that it is legible on a dark page, too.
func (p picture) write(path string) error {
	drawn := plot.New()
	drawn.BackgroundColor = color.White
	drawn.Title.Text = p.title
	drawn.Title.Padding = margin
	drawn.X.Tick.Marker, drawn.Y.Tick.Marker = plot.TickerFunc(plainTicks), plot.TickerFunc(plainTicks)
	drawn.Add(plotter.NewGrid())
	if err := p.draw(drawn); err != nil {
		return err
	}
	drawn.Y.Min = 0
	sansSerif(drawn)

	canvas := vgsvg.New(plotWidth, plotHeight)
	all := draw.New(canvas)
	all.FillPolygon(color.White, []vg.Point{
		all.Min, {X: all.Max.X, Y: all.Min.Y}, all.Max, {X: all.Min.X, Y: all.Max.Y},
	})
	legend := drawn.Legend
	drawn.Legend = plot.NewLegend()
	drawn.Draw(draw.Crop(all, margin, -legendWidth-margin, margin, -margin))
	legend.Top, legend.Left, legend.Padding = true, true, vg.Points(3)
	legend.Draw(draw.Crop(all, plotWidth-legendWidth, 0, 0, -3*margin))

	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// plainTicks are the usual ones, labelled 2500 and not 2500.00.
func plainTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if !ticks[i].IsMinor() {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
		}
	}
	return ticks
}

// sansSerif is easier to read at this size.
func sansSerif(p *plot.Plot) {
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
}
