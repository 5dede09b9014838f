//! Parts of a finished run's page that commands share.

use comfy_table::Table;
use web::ReplayTable;

/// `table` for a page; its first `texts` columns are text, the others numbers.
pub fn table(caption: &str, table: &Table, texts: usize) -> ReplayTable {
    let cells = |row: &comfy_table::Row| row.cell_iter().map(comfy_table::Cell::content).collect();
    ReplayTable {
        caption: caption.to_owned(),
        columns: table.header().map(cells).unwrap_or_default(),
        texts,
        rows: table.row_iter().map(cells).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_its_cells() {
        let mut drawn = Table::new();
        drawn.set_header(["path", "time"]).add_row(["cubic", "2.00 s"]);
        let shown = table("Paths", &drawn, 1);
        assert_eq!((shown.caption.as_str(), shown.texts), ("Paths", 1));
        assert_eq!(shown.columns, ["path", "time"]);
        assert_eq!(shown.rows, [["cubic", "2.00 s"]]);
    }
}
