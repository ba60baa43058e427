use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

fn turns(at_once: usize, for_services: usize, of_caller_max: usize) -> Arc<PageTurns> {
    PageTurns::new(PageLimits { at_once, for_services, of_caller_max })
}

fn viewer(name: &str) -> CallerName {
    CallerName::Viewer(name.into())
}

#[tokio::test]
async fn a_page_waits_for_one_of_each_other_caller_and_is_not_refused() {
    let turns = turns(1, 0, 64);
    let mut many = tokio::task::JoinSet::new();
    let read = Arc::new(AtomicUsize::new(0));
    for _ in 0..40 {
        let (turns, read) = (turns.clone(), read.clone());
        many.spawn(async move {
            let turn = turns.take(viewer("greedy")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            read.fetch_add(1, Ordering::Relaxed);
            drop(turn);
        });
    }
    tokio::task::yield_now().await;
    drop(turns.take(viewer("other")).await.unwrap());
    assert_eq!(read.load(Ordering::Relaxed), 1, "it waited for one");
    while many.join_next().await.is_some() {}
    assert!(turns.callers.lock().unwrap().is_empty(), "who waits for nothing is forgotten");
}

#[tokio::test]
async fn a_service_does_not_wait_for_viewers() {
    let turns = turns(3, 1, 64);
    let mut viewers: Vec<_> = (0..20).map(|n| Box::pin(turns.take(viewer(&n.to_string())))).collect();
    let mut read = Vec::new();
    for page in &mut viewers {
        read.extend(tokio::time::timeout(Duration::from_millis(1), page).await.map(Result::unwrap));
    }
    assert_eq!(read.len(), 2, "viewers leave one place");
    let service = turns.take(CallerName::Service("shop".into()));
    assert!(tokio::time::timeout(Duration::from_millis(1), service).await.is_ok());
}

#[tokio::test]
async fn the_line_of_a_caller_is_bounded_and_what_is_given_up_leaves_it() {
    let turns = turns(1, 0, 3);
    let _read = turns.take(viewer("a")).await.unwrap();
    let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(turns.take(viewer("a")))).collect();
    for future in &mut waiting {
        assert!(tokio::time::timeout(Duration::from_millis(1), future).await.is_err());
    }
    assert!(turns.take(viewer("a")).await.is_err_and(|refused| refused == TooManyPages));
    drop(waiting.pop());
    let again = tokio::time::timeout(Duration::from_millis(1), turns.take(viewer("a"))).await;
    assert!(again.is_err(), "it waits, and is not refused");
}
