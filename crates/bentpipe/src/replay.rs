//! Parts of a finished run's page that commands share.

use results::listing::Listing;
use web::ReplayTable;

/// `listing` for a page; its first `texts` columns are text, the others numbers.
pub fn table(caption: &str, listing: &Listing, texts: usize) -> ReplayTable {
    ReplayTable { caption: caption.to_owned(), columns: listing.heads(), texts, rows: listing.cells() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::listing::{figure, text};
    use units::Quantity;

    #[test]
    fn a_table_keeps_its_cells() {
        let mut listing = Listing::new([text("path"), figure("time", Quantity::Time)]);
        listing.add(["cubic".into(), 2.0.into()]);
        let shown = table("Paths", &listing, 1);
        assert_eq!((shown.caption.as_str(), shown.texts), ("Paths", 1));
        assert_eq!(shown.columns, ["path", "time, s"]);
        assert_eq!(shown.rows, [["cubic", "2.00"]]);
    }
}
