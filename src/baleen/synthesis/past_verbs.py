"""Past forms of regular verbs that follow "he", "she", "it" or "they" in encyclopaedic text."""

from __future__ import annotations

from baleen.synthesis.words import word_set

REGULAR_PASTS = word_set(
    """
    abandoned abdicated absorbed acceded accepted accompanied accomplished accounted accumulated achieved
    acknowledged acquired acted adapted added administered admitted adopted advanced advised advocated agreed aided
    aimed aired allowed alternated amalgamated amassed analyzed anchored announced answered appealed appeared
    applied appointed apprenticed approached argued arranged arrived ascended asked assembled asserted assisted
    assumed attacked attained attempted attended attracted auditioned authored averaged batted battled befriended
    believed belonged bequeathed bested bettered boarded bordered branched burned cached campaigned captained
    captured carried caused ceased celebrated cemented centered chaired challenged championed changed charted cited
    claimed clerked climbed clinched closed co-founded co-wrote coached coincided coined collaborated collapsed
    collected collided combined commanded commenced commentated commented commissioned committed competed compiled
    completed composed comprised computed conceived concentrated concluded conducted confessed confirmed connected
    conquered considered consisted constituted constructed contacted contained contended contested continued
    contracted contributed controlled converted convinced coordinated corresponded counted covered crashed created
    criticized crossed cruised culminated damaged danced debuted decided declared declined dedicated defeated
    defected defended defined delivered demanded demonstrated denied denounced departed depended derived descended
    described designed destroyed determined developed devised devoted differed directed disappeared disbanded
    discovered discussed dismissed displayed dissolved distinguished distributed diversified divided divorced
    dominated donated doubled drafted drifted dropped dubbed earned edged edited elected eliminated embarked
    embraced emerged emigrated emphasized employed enabled encompassed encountered encouraged ended endorsed endured
    engaged engineered enjoyed enlisted enrolled entered envisioned equalled erupted escaped escorted established
    evolved excelled excluded excommunicated executed exercised exhibited existed exited expanded experienced
    experimented explained exploded explored exposed expressed extended faced failed fared farmed favored favoured
    featured fielded filed filled filmed financed finished fired flourished focused folded followed forced forged
    formed formulated fostered founded fronted fulfilled functioned funded gained garnered gathered generated
    governed graduated granted grossed guarded guided handled headed headlined helmed helped hired honored hoped
    hosted housed identified illustrated immigrated implemented impressed improved inaugurated included incorporated
    increased influenced inhabited inherited initiated insisted inspired installed instituted intended intercepted
    interpreted interviewed introduced invaded invented invested invited involved issued joined journeyed jumped
    kicked killed lacked landed lasted launched learned lectured lettered licensed lifted liked linked lived loaded
    lobbied located logged looked lowered maintained majored managed manufactured marched marked married matched
    matriculated measured mentioned mentored merged migrated missed modeled mounted moved murdered narrated needed
    negotiated nominated notched noted numbered obtained occupied occurred offered officiated opened operated
    opposed opted ordered organised organized originated ousted outlined outlived owned painted paired parsed parted
    participated partnered passed peaked penned perfected performed permitted persuaded petitioned photographed
    picked piloted pioneered pitched pitted placed planned played pleaded pledged polled popularized portrayed posed
    possessed posted powered practiced practised preached preceded predeceased predicted preferred premiered
    prepared presented presided proceeded produced progressed promised promoted proposed protected proved provided
    published pulled purchased pursued pushed qualified raced raised ranged ranked reached realized reappeared
    rebounded rebranded recalled received recognized recommended recorded recovered recruited reduced reemerged
    refereed referred reflected reformed refused regained regarded registered regrouped reigned rejected rejoined
    released relented relied relinquished relocated remained remarked remarried removed renamed renounced reopened
    repeated replaced reported represented reprised requested required rescued researched resided resigned resisted
    responded restored resulted resumed retained retired returned reunited revealed reverted revised revived
    rewarded rounded rowed ruled rushed sailed saved scored screened scripted seated secured seemed seized selected
    separated served settled shared shifted showcased showed sided signed sired skated skipped slipped snatched
    spanned sparked spawned specialised specialized sponsored staged starred started stated stayed steered stepped
    stimulated stopped stored strengthened stressed struggled studied submitted subscribed substituted succeeded
    succumbed suffered suggested superseded supervised supplied supported surpassed surrendered survived suspended
    sustained switched tallied targeted teamed tended tested testified thrived topped totaled totalled touched
    toured traded trained transferred transformed transitioned translated transported traveled travelled tried
    turned umpired unified united unseated unveiled utilized ventured visited voiced volunteered voted waged walked
    wanted warned weakened weighed welcomed witnessed worked wrapped wrestled yielded
    """
)
