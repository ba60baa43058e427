//! Plan and actual spending of rows as a drawing: one panel for each, in SVG, without anything from outside.

use std::fmt::Write;

use super::Row;
use crate::units::BudgetMicros;

const PANELS_ACROSS: usize = 2;
const PANEL: (f64, f64) = (540.0, 190.0);
/// The curve within its panel: from the left, from the top, width, height.
const PLOT: (f64, f64, f64, f64) = (46.0, 30.0, 470.0, 130.0);
/// Every so many minutes a point is drawn.
const MINUTES: usize = 5;
/// So many points stand in a line of the file.
const POINTS_IN_LINE: usize = 8;

/// The drawing. The vertical axis is the budget, the horizontal one the day.
pub fn svg(title: &str, rows: &[Row]) -> String {
    let (width, height) = (PANEL.0 * PANELS_ACROSS as f64, PANEL.1 * rows.len().div_ceil(PANELS_ACROSS) as f64 + 40.0);
    let mut drawing = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <style>\n\
         text {{ fill: #333 }} .name {{ font-size: 13px; font-weight: bold }} .axis {{ stroke: #ccc; fill: none }}\n\
         .plan {{ stroke: #999; stroke-width: 1.5; stroke-dasharray: 4 3; fill: none }}\n\
         .spent {{ stroke: #1769aa; stroke-width: 2; fill: none }}\n\
         </style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text class=\"name\" x=\"10\" y=\"22\">{title}</text>\n"
    );
    for (at, row) in rows.iter().enumerate() {
        let (across, down) = (at % PANELS_ACROSS, at / PANELS_ACROSS);
        drawing += &panel(PANEL.0 * across as f64, 40.0 + PANEL.1 * down as f64, row);
    }
    drawing + "</svg>\n"
}

fn panel(x: f64, y: f64, row: &Row) -> String {
    let (left, top, width, height) = PLOT;
    let mut panel = format!("<g transform=\"translate({x} {y})\">\n");
    let facts = format!("{:.1} % spent, CPM {:.2}", row.utilisation() * 100.0, row.average_price() / 1e3);
    let _ = writeln!(panel, "<text class=\"name\" x=\"{left}\" y=\"20\">{}</text>", row.strategy);
    let _ = writeln!(panel, "<text x=\"{}\" y=\"20\" text-anchor=\"end\">{facts}</text>", left + width);
    for quarter in 0..=4 {
        let at = top + height - height * f64::from(quarter) / 4.0;
        let _ = writeln!(panel, "<path class=\"axis\" d=\"M{left} {at} H{}\"/>", left + width);
        let _ = writeln!(
            panel,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{} %</text>",
            left - 4.0,
            at + 4.0,
            quarter * 25
        );
        let at = left + width * f64::from(quarter) / 4.0;
        let _ = writeln!(
            panel,
            "<text x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}:00</text>",
            top + height + 16.0,
            quarter * 6
        );
    }
    panel += &curve("plan", &row.plan, row.budget);
    panel += &curve("spent", &row.curve, row.budget);
    panel + "</g>\n"
}

fn curve(class: &str, points: &[BudgetMicros], budget: BudgetMicros) -> String {
    let (left, top, width, height) = PLOT;
    let last = points.len().saturating_sub(1).max(1) as f64;
    let position = |(minute, spent): (usize, &BudgetMicros)| {
        let part = spent.0 as f64 / budget.0.max(1) as f64;
        format!("{:.1},{:.1}", left + width * minute as f64 / last, top + height - height * part)
    };
    let drawn: Vec<_> = points.iter().enumerate().step_by(MINUTES).map(position).collect();
    let lines: Vec<_> = drawn.chunks(POINTS_IN_LINE).map(|line| line.join(" ")).collect();
    format!("<polyline class=\"{class}\" points=\"{}\"/>\n", lines.join("\n"))
}
