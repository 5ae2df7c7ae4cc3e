//! Giving up what is missed least.

use super::{Action, Cache, DirtyPages, Extent, Failed, Learner, Span, State, Wanted};
use crate::{
    cache::{frame_pool::ORDER_MAX, index::ExtentId},
    page::Page,
    prefetch::is_of_history,
};
use std::ops::Range;

/// So many frames at most are kept free or at rest: one part in so many of all, and no more than it
/// takes while a drive is busy with the next: 64 MiB.
const RESERVE_PART: u32 = 16;
const RESERVE_MAX: u32 = 1 << 14;

/// Where what is given up is waited for soon after, up to one part in so many more rests: nothing
/// tells which mapped pages are in use, but what is touched at rest is, and so it stays (GEMM by
/// rows).
const RESTS_PART: u32 = 4;

/// For each frame that is taken so many more are kept, up to that, and for each that is touched
/// after it was given up one less: while a program stays with what is there, room is of no use to
/// it, and whatever makes it would be touched next.
const RESERVE_GROWTH: u32 = 2;

/// So many writes more than there are extents have to fail one after another before there is no
/// hope: a drive that fails often does not fail always.
const REFUSED_MIN: usize = 256;

/// Of a loop, one part in so many of all holds what has just gone by, and the rest what is kept ...
const GONE_BY_PART: u32 = 32;

/// ... and no less than a huge page for each of its streams, in which it may still be, if that is
/// no more than one part in so many.
const GONE_BY_MOST: u32 = 8;

/// One huge page in so many of a loop is kept all the same, so that what is kept of a phase that
/// has ended is not kept for ever (bimodal insertion: Qureshi et al., "Adaptive Insertion Policies
/// for High Performance Caching", ISCA 2007) ...
const KEPT_ONE_IN: u64 = 16;

/// ... others each time that so many times all frames have gone by.
pub(super) const KEPT_ROUND: u64 = 4;

/// Whether a page of a loop is kept in a round: those of a huge page are, or are not, since pieces
/// that are kept would leave gaps in which no long transfer fits.
pub(super) const fn is_kept(page: Page, round: u64) -> bool {
    hashed(page >> ORDER_MAX, round).is_multiple_of(KEPT_ONE_IN)
}

/// Fibonacci hashing (Knuth, The Art of Computer Programming vol. 3, section 6.4).
const fn hashed(low: u64, high: u64) -> u64 {
    (low ^ high << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Cache {
    /// Sees to it that there are frames before they are needed.
    pub(super) fn make_room(&mut self, actions: &mut Vec<Action>) {
        if std::mem::take(&mut self.is_scattered) {
            self.gather(actions);
        }
        if self.is_stuck() && self.waiting.is_empty() {
            // Nobody takes what would make room, and nobody needs it.
            return;
        }
        let most = self.reserve_max();
        self.reserve = self.reserve.min(most);
        let reserve = self.reserve + self.due();
        while self.pool.free() + self.resting_frames + self.leaving < reserve {
            if let Some(id) = self.long_forgotten() {
                self.drop_foreseen(id);
            } else if let Some(pages) = self.tried(most) {
                self.give_up_all(self.within(&pages), actions);
            } else if let Some(id) = self.missed_least(most) {
                self.give_up_around(id, actions);
            } else if let Some(id) = self.foreseen.first() {
                self.drop_foreseen(id);
            } else {
                return;
            }
        }
    }

    fn reserve_max(&self) -> u32 {
        let part = (self.budget() / RESERVE_PART).min(RESERVE_MAX);
        let rests = f64::from(self.budget() / RESTS_PART) * self.cyclic.early();
        (part + rests as u32).max(2 << self.settings.order) + self.due()
    }

    /// So many frames were taken, or are missed.
    pub(super) fn reserve_more(&mut self, frames: u32) {
        self.reserve = (self.reserve + frames * RESERVE_GROWTH).min(self.reserve_max());
    }

    /// So many frames were given up, and are touched after all.
    pub(super) fn rescued(&mut self, frames: u32) {
        self.reserve = self.reserve.saturating_sub(frames);
        self.cyclic.rescue(frames);
    }

    /// Gives up what was foreseen and not touched.
    pub(super) fn drop_foreseen(&mut self, id: ExtentId) {
        let extent = self.extents[id as usize];
        self.dequeue(id);
        self.forget(id);
        let frames = u64::from(extent.frames());
        self.counts.prefetch_wasted += frames;
        self.counts.history.wasted += if is_of_history(extent.stream) { frames } else { 0 };
        self.predictor.on_wasted(extent.stream, &extent.span().pages());
    }

    /// Whether what is kept of a loop has its share.
    fn is_kept(&self, reserve: u32) -> bool {
        let frames = self.budget();
        let of_streams = (self.ahead.len() as u32 + 1) << ORDER_MAX;
        let gone_by = (frames / GONE_BY_PART).max(of_streams.min(frames / GONE_BY_MOST));
        let kept = frames.saturating_sub(reserve + self.foreseen_frames + gone_by);
        self.mapped_frames <= kept && !self.cyclic.makes_way()
    }

    /// A huge page of what is kept of a loop, if it is time to see whether it is missed: smaller
    /// pieces would leave gaps in which no long transfer fits.
    fn tried(&self, reserve: u32) -> Option<Range<Page>> {
        let kept = self.mapped.first().filter(|_| self.is_kept(reserve))?;
        let is_time = self.gone_by.first().is_some() && self.cyclic.tries(1 << ORDER_MAX);
        let start = self.extents[kept as usize].span().page >> ORDER_MAX << ORDER_MAX;
        is_time.then_some(start..start + (1 << ORDER_MAX))
    }

    /// The mapped extent that is missed least.
    fn missed_least(&self, reserve: u32) -> Option<ExtentId> {
        let gone_by = self.gone_by.first().filter(|_| self.is_kept(reserve));
        gone_by.or(self.mapped.first()).or(self.gone_by.first())
    }

    pub(super) fn moved_out(
        &mut self,
        id: ExtentId,
        changed: DirtyPages,
        actions: &mut Vec<Action>,
    ) {
        self.is_obstructed = false;
        let extent = &mut self.extents[id as usize];
        extent.is_dirty = !changed.is_empty();
        let (span, frames) = (extent.span(), extent.frames());
        self.leaving -= frames;
        let is_due = extent.wanted().is_none() || self.is_frozen;
        if extent.is_dirty && is_due && !self.is_discarded(span) {
            self.extents[id as usize].state = State::Writing;
            self.leaving += frames;
            self.counts.written += u64::from(changed.count());
            actions.push(Action::Write(id, span, changed));
        } else {
            self.ready(id, actions);
        }
    }

    pub(super) fn wrote(
        &mut self,
        id: ExtentId,
        result: Result<(), Failed>,
        actions: &mut Vec<Action>,
    ) {
        let extent = &mut self.extents[id as usize];
        let span = extent.span();
        self.leaving -= extent.frames();
        if result.is_ok() {
            extent.is_dirty = false;
            self.refused = 0;
            span.pages().for_each(|page| self.store(page));
        } else {
            self.refused += 1;
            // It stays where it is safe, and is written again when it is its turn.
            self.is_unwritable = self.is_frozen;
            if extent.wanted().is_none() {
                extent.want(span.page, true);
            }
        }
        self.ready(id, actions);
    }

    /// An extent was filled.
    pub(super) fn filled(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = self.extents[id as usize];
        if let Some(wanted) = extent.wanted() {
            if extent.stream != 0 && extent.is_probe {
                self.foreseen_less(extent.stream, extent.frames());
                self.used(id);
            }
            self.probe(id, wanted);
        }
        self.ready(id, actions);
    }

    /// Of a probe that is in no queue all but the page that is waited for is ready by itself, and
    /// of that `id` is left.
    pub(super) fn probe(&mut self, id: ExtentId, Wanted { page, .. }: Wanted) {
        let extent = &mut self.extents[id as usize];
        if !std::mem::take(&mut extent.is_probe) {
            return;
        }
        if self.shows(id, page) {
            let now = self.now();
            self.learner(page).watch(page, now);
        }
        while self.extents[id as usize].frames() > 1 {
            let whole = self.extents[id as usize];
            let [first, second] = halves(whole.span());
            let (near, far) =
                if first.pages().contains(&page) { (first, second) } else { (second, first) };
            let mut rest = Extent::new(far, State::Ready, 0);
            rest.is_dirty = whole.is_dirty;
            let other = self.insert(rest);
            self.index.set(far.page, far.order, Some(other));
            self.enqueue(other);
            let mut near = Extent::new(near, whole.state, 0);
            if let Some(wanted) = whole.wanted() {
                near.want(wanted.page, wanted.is_write);
            }
            self.put(id, near);
        }
    }

    /// Whether touches of what a touch of a page brings in all show, but for those of an extent.
    fn shows(&self, id: ExtentId, page: Page) -> bool {
        let state = |page: Page| {
            let other = self.index.get(page).filter(|other| *other != id);
            other.map(|id| self.extents[id as usize].state)
        };
        self.around(&(page..page + 1))
            .all(|page| !matches!(state(page), Some(State::Mapped | State::Mapping)))
    }

    /// What could not be read: of several pages only the one that is waited for is tried again.
    pub(super) fn unreadable(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = self.extents[id as usize];
        let span = extent.span();
        if extent.stream != 0 {
            self.foreseen_less(extent.stream, extent.frames());
        }
        self.forget(id);
        let Some(Wanted { page, is_write }) = extent.wanted() else { return };
        if span.order > 0 {
            // Others may wait for other pages of it.
            actions.push(Action::Wake(span.page, 1 << span.order));
        }
        if span.order == 0 {
            self.lose(page, actions);
        } else if let Some(id) = self.bring(page, 0, 0, actions) {
            self.extents[id as usize].want(page, is_write);
        } else {
            self.waiting.push_front((page, is_write));
        }
    }

    /// Whether there can be no more room: each extent was to be written, and no drive took it.
    pub(super) const fn is_stuck(&self) -> bool {
        self.refused > self.extents.len() - self.unused.len() + REFUSED_MIN
    }

    /// Lets who touches a page know that nobody can bring it.
    pub(super) fn lose(&mut self, page: Page, actions: &mut Vec<Action>) {
        self.lost.insert(page);
        actions.push(Action::Poison(page));
    }

    /// Puts a mapped extent into its queue.
    pub(super) fn enter(&mut self, id: ExtentId) {
        let extent = self.extents[id as usize];
        if self.is_to_pin(&extent) {
            self.pinned_frames += extent.frames();
            self.extents[id as usize].is_pinned = true;
        } else if extent.goes_by {
            self.gone_by.push(&mut self.links, id);
        } else {
            self.mapped_frames += extent.frames();
            self.mapped.push(&mut self.links, id);
        }
    }

    /// Takes a mapped extent out of its queue.
    pub(super) fn leave(&mut self, id: ExtentId) {
        let extent = &mut self.extents[id as usize];
        if extent.is_pinned {
            extent.is_pinned = false;
            self.pinned_frames -= extent.frames();
        } else if extent.goes_by {
            self.gone_by.remove(&mut self.links, id);
        } else {
            self.mapped_frames -= extent.frames();
            self.mapped.remove(&mut self.links, id);
        }
    }

    /// Gives up a mapped extent, and with it the others in a block of frames as long as what is
    /// brought in at once: or there would be no such block any more.
    fn give_up_around(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let Span { frame, order, .. } = self.extents[id as usize].span();
        let together = self.learners.values().map(Learner::order).max().unwrap_or(0);
        self.give_up(id, actions);
        if order < together {
            let first = frame >> together << together;
            self.give_up_all(self.owners.within(first, 1 << together).collect(), actions);
        }
    }

    /// Gives up those of some extents that are mapped.
    fn give_up_all(&mut self, ids: Vec<ExtentId>, actions: &mut Vec<Action>) {
        for id in ids {
            let extent = &self.extents[id as usize];
            if extent.state == State::Mapped && !extent.is_pinned {
                self.give_up(id, actions);
            }
        }
    }

    fn give_up(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        let extent = &self.extents[id as usize];
        match extent.goes_by {
            true => self.cyclic.goes_by(extent.frames()),
            false => self.cyclic.watch(extent.span().pages()),
        }
        self.unmap(id, actions);
    }

    /// Begins to unmap a mapped extent.
    pub(super) fn unmap(&mut self, id: ExtentId, actions: &mut Vec<Action>) {
        self.leave(id);
        let extent = &mut self.extents[id as usize];
        extent.state = State::Unmapping;
        let (span, is_dirty) = (extent.span(), extent.is_dirty);
        self.leaving += extent.frames();
        actions.push(Action::MoveOut { id, span, is_dirty });
    }

    /// Gives up the frames of what has rested longest; `None` where nothing rests.
    pub(super) fn drop_rested(&mut self) -> Option<()> {
        let id = self.resting.first()?;
        self.drop_at_rest(id);
        Some(())
    }

    /// Gives up the frames of what rests.
    pub(super) fn drop_at_rest(&mut self, id: ExtentId) {
        self.dequeue(id);
        self.counts.evicted += u64::from(self.extents[id as usize].frames());
        self.forget(id);
    }

    pub(super) fn forget(&mut self, id: ExtentId) {
        let span = self.extents[id as usize].span();
        self.owners.clear(span.frame);
        self.cyclic.give_up(span.page, 1 << span.order);
        self.index.set(span.page, span.order, None);
        self.pool.give(span.frame, span.order);
        self.unused.push(id);
    }
}

/// The two halves of what is longer than one page.
pub(super) const fn halves(span: Span) -> [Span; 2] {
    let order = span.order - 1;
    let Span { page, frame, .. } = span;
    [
        Span { page, frame, order },
        Span { page: page + (1 << order), frame: frame + (1 << order), order },
    ]
}
